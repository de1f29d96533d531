#!/ usr / bin / env python3
"""ONNX's checker and ONNX Runtime over the files of brim: check_onnx.py FOLDER [NAME...]

FOLDER is what `BRIM_ONNX_ZOO=FOLDER build/tests/deploy_test` leaves: NAME.onnx, and NAME.safetensors with inputs and
brim's outputs for batches of 1 and 3. Prints the largest difference over the largest output, and exits 1 where one is
more than 1e-5. Layers in 8-bit integers round what comes before them, which differs in the last bit, so that now and then
an integer is the next one: they are compared once more with the integers that brim rounded to, layer by layer, and that
must be within 1e-5. Needs onnx and onnxruntime (PyPI).
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

LIMIT = 1e-5
INT8_LIMIT = 0.1  # where a sum in f32 falls on the other side of a half, an integer is another one
TYPES = {"F32": np.float32, "I64": np.int64, "BOOL": np.bool_, "I32": np.int32, "U8": np.uint8}


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    body = data[8 + size :]
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        tensors[name] = np.frombuffer(body[begin:end], TYPES[info["dtype"]]).reshape(info["shape"])
    return tensors


def session(model, optimised):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def difference(found, expected):
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    wide, other = found.astype(np.float64), expected.astype(np.float64)
    return float(np.abs(wide - other).max() / max(np.abs(other).max(), 1e-30))


def with_integers(model, tensors):
    """The model with brim's integers in place of what QuantizeLinear makes, and what went into it as outputs."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph, layers = model.graph, {}
    for node in [n for n in graph.node if n.op_type == "QuantizeLinear"]:
        layer = node.name.rsplit("/", 1)[0]
        if f"1:u8:{layer}" not in tensors:
            continue
        layers[layer] = (node.output[0], node.input[0])
        graph.node.remove(node)
        graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.UINT8, None))
        if node.input[0] not in [v.name for v in list(graph.input) + list(graph.output)]:
            graph.output.append(onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None))
    return model, layers


def run_onnx(model, inputs, optimised=True):
    runner = session(model, optimised)
    names = [o.name for o in runner.get_outputs()]
    wanted = {i.name for i in runner.get_inputs()}
    return dict(zip(names, runner.run(names, {
  k: v for k, v in inputs.items() if k in wanted})))


def check(path):
    """Differences by batch of what ONNX Runtime computes, and of what it does with brim's integers (or None)."""
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    tensors = read_safetensors(path.with_suffix(".safetensors"))
    is_int8 = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    whole, forced = [], []
    for batch in "13":
        inputs = {i.name: tensors[f"{batch}:{i.name}"] for i in model.graph.input}
        expected = {o.name: tensors[f"{batch}:{o.name}"] for o in model.graph.output}
        found = run_onnx(model, inputs)
        whole.append(max(difference(found[name], value) for name, value in expected.items()))
        if not is_int8:
            continue
        other, layers = with_integers(model, tensors)
        if not layers:
            continue
        for layer, (integers, floats) in layers.items():
            inputs[integers] = tensors[f"{batch}:u8:{layer}"]
            if floats not in inputs:
                expected[floats] = tensors[f"{batch}:f32:{layer}"]
        found = run_onnx(other, inputs)
        forced.append(max(difference(found[name], value) for name, value in expected.items()))
    return whole, forced


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    paths = [folder / f"{name}.onnx" for name in names] or sorted(folder.glob("*.onnx"))
    if not paths:
        sys.exit(f"{folder} holds no .onnx files")
    failures = 0
    print(f"{'':<28} {'batch 1':>9} {'batch 3':>9}   with brim's integers")
    for path in paths:
        whole, forced = check(path)
        is_int8 = path.stem.endswith(("-int8", "-symmetric"))
        good = max(forced, default=0) <= LIMIT and max(whole) <= (INT8_LIMIT if is_int8 else LIMIT)
        failures += not good
        print(f"{path.stem:<28} " + " ".join(f"{d:9.1e}" for d in whole) + "   "
              + " ".join(f"{d:9.1e}" for d in forced), "" if good else "TOO FAR", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
