"""Files as torch.save writes them (data/*.pth), and in pth.safetensors what they hold: `<file>/<name>` in float64 or
int64 (bytes, where brim only stores the dtype), with dtype and strides in the metadata entry of that name."""

import json
from collections import OrderedDict

import torch

from goldenlib import random, write_safetensors

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
STORED = {
    torch.int16: "i16",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.float8_e4m3fn: "f8_e4m3fn",
    torch.float8_e5m2: "f8_e5m2",
    torch.float8_e4m3fnuz: "f8_e4m3fnuz",
    torch.float8_e5m2fnuz: "f8_e5m2fnuz",
    torch.float8_e8m0fnu: "f8_e8m0fnu",
}


def numbers(key, *shape):
    return torch.from_numpy(random(f"pth/{key}").standard_normal(shape).astype("float32"))


def network():
    """Parameters and buffers, with the _metadata of an OrderedDict."""
    net = torch.nn.Sequential(OrderedDict(conv=torch.nn.Conv2d(3, 4, 3), norm=torch.nn.BatchNorm2d(4)))
    with torch.no_grad():
        for name, value in net.state_dict().items():
            value.copy_(numbers(name, *value.shape) * 10)
    return net


def views():
    """Views that share a storage, layouts, and every dtype."""
    base = numbers("views", 4, 6)
    state = OrderedDict(
        base=base,
        rows=base[1:3],
        column=base[:, 2],
        turned=base.t(),
        every_second=base[::2, 1::2],
        last=base[3, 5],
        channels_last=numbers("channels_last", 2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        parameter=torch.nn.Parameter(numbers("parameter", 3)),
        frozen=torch.nn.Parameter(base[0], requires_grad=False),
        empty=torch.zeros(0, 4),
    )
    state["ünï.código"] = torch.tensor(2.5)
    for dtype, name in NAMES.items():
        state[f"of_{name}"] = (numbers(name, 5) * 3).to(dtype)
    return state


def stored():
    """Dtypes that no op of brim computes with, of any bits, and a view of each; and one's bytes."""
    state = OrderedDict()
    for dtype, name in STORED.items():
        data = random(f"pth/{name}").integers(0, 256, 6 * dtype.itemsize, dtype="uint8")
        state[name] = torch.from_numpy(data).view(dtype).reshape(2, 3)
        state[f"{name}_turned"] = state[name].t()
    state["f8_e5m2_bytes"] = state["f8_e5m2"].view(torch.uint8)  # one storage, by two types
    return state


def wide(value):
    if value.dtype in STORED:
        return value.contiguous().view(torch.uint8).long()
    return value.double() if value.is_floating_point() else value.long()


def training():
    """What training scripts save: one state dict among other things."""
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(numbers("input", 1, 3, 5, 5)).sum().backward()
    optimizer.step()
    return {"epoch": 3, "best": 0.5, "arch": "tiny", "state_dict": net.state_dict(), "optimizer": optimizer.state_dict()}


def write(folder):
    torch.manual_seed(0)
    files = {
        "pth_network": (network().state_dict(), {}),
        "pth_views": (views(), {}),
        "pth_training": (training(), {}),
        "pth_protocol1": (views(), {"pickle_protocol": 1}),
        "pth_protocol4": (views(), {"pickle_protocol": 4}),
        "pth_stored": (stored(), {}),
    }
    tensors, metadata, paths = {}, {}, []
    for file, (state, options) in files.items():
        paths.append(folder / f"{file}.pth")
        torch.save(state, paths[-1], **options)
        for name, value in state.get("state_dict", state).items():
            value = value.detach()
            tensors[f"{file}/{name}"] = wide(value).contiguous().numpy()
            dtype = (NAMES | STORED)[value.dtype]
            metadata[f"{file}/{name}"] = json.dumps({"dtype": dtype, "strides": value.stride()})
    paths.append(folder / "pth.safetensors")
    write_safetensors(paths[-1], tensors, metadata)
    return paths
