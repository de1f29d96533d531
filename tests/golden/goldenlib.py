"""Collects golden cases from PyTorch and writes them as safetensors files.

Inputs and cotangents are float32 numbers, results are computed in float64: the same case is the reference of both
types. Keys are `<op>/<case>/{in,out,cotangent,grad}/<i>`; the metadata entry `<op>/<case>` is a JSON object:
`attrs` (the op's options), `in`, `out` (counts), `grad` (inputs that have a gradient), `views` (input -> layout that
the test must give it: `transpose` stores the last two dimensions swapped, `slice` is every second element of the last).
"""

import json
import zlib

import numpy as np
import torch

DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


def random(key):
    """A generator that depends on the name alone, so cases can be added without changing others."""
    return np.random.Generator(np.random.PCG64(zlib.crc32(key.encode())))


def make_view(tensor, view):
    """The same values in a layout that is not contiguous."""
    if view == "transpose":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if view == "slice":
        wide = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=tensor.dtype)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    raise ValueError(f"unknown view {view!r}")


def write_safetensors(path, tensors, metadata):
    """A deterministic writer: keys sorted, data aligned to 8 bytes by sorting wide types first."""
    metadata = {"torch": torch.__version__.split("+")[0], **metadata}
    header = {"__metadata__": dict(sorted(metadata.items()))}
    offset, blobs = 0, []
    for name in sorted(tensors, key=lambda n: (-tensors[n].dtype.itemsize, n)):
        array = tensors[name]
        blob = array.tobytes()
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


class Family:
    """One file of cases."""

    def __init__(self, name):
        self.name = name
        self.tensors = {}
        self.metadata = {}

    def data(self, key, shape, low=None, high=None):
        """float32 numbers: standard normal, or uniform in [low, high)."""
        generator = random(f"{self.name}/{key}")
        if low is None:
            return generator.standard_normal(shape).astype(np.float32)
        return generator.uniform(low, high, shape).astype(np.float32)

    def integers(self, key, shape, low, high):
        return random(f"{self.name}/{key}").integers(low, high, shape, dtype=np.int64)

    def case(self, op, name, function, inputs, attrs=None, views=None, grad=True):
        """Records function(*inputs). grad: False, True (every floating input) or the inputs' indices."""
        key = f"{op}/{name}"
        if key in self.metadata:
            raise ValueError(f"{self.name}: case {key} exists already")
        views = views or {}
        arguments = []
        for i, array in enumerate(inputs):
            array = np.asarray(array)
            tensor = torch.from_numpy(array.copy())
            if array.dtype == np.float32:
                tensor = tensor.double()
            if i in views:
                tensor = make_view(tensor, views[i])
            arguments.append(tensor)
            self.put(f"{key}/in/{i}", array)
        floating = [i for i, a in enumerate(arguments) if a.is_floating_point()]
        if grad is True:
            grad = floating
        grad = list(grad or [])
        for i in grad:
            arguments[i].requires_grad_()
        outputs = function(*arguments)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        differentiable = [(i, o) for i, o in enumerate(outputs) if o.requires_grad]
        if grad:
            if not differentiable:
                raise ValueError(f"{key}: no output has a gradient")
            cotangents = [self.data(f"{key}/cotangent/{i}", tuple(o.shape)) for i, o in differentiable]
            for (i, _), cotangent in zip(differentiable, cotangents):
                self.put(f"{key}/cotangent/{i}", cotangent)
            grads = torch.autograd.grad(
                [o for _, o in differentiable],
                [arguments[i] for i in grad],
                [torch.from_numpy(c).double() for c in cotangents],
            )
            for i, g in zip(grad, grads):
                self.put(f"{key}/grad/{i}", g.numpy())
        for i, output in enumerate(outputs):
            self.put(f"{key}/out/{i}", output.detach().numpy())
        record = {"attrs": attrs or {}, "in": len(inputs), "out": len(outputs), "grad": grad}
        if views:
            record["views"] = {str(i): view for i, view in views.items()}
        self.metadata[key] = json.dumps(record, sort_keys=True)

    def put(self, key, array):
        array = np.asarray(array)
        self.tensors[key] = array if array.ndim == 0 else np.ascontiguousarray(array)

    def write(self, folder):
        path = folder / f"{self.name}.safetensors"
        write_safetensors(path, self.tensors, self.metadata)
        return path
