"""Who runs the network. A side opens a model's files for one size of batch and then runs the same buffers again and
again, in the way that costs it least: bound inputs and outputs where it has them.

open(about, x, y, threads, isa) -> a Runner. `about`: the model and its files, as models.prepare() gives them; x, y: an input
and an output of the right shape. Raises Absent where the side cannot do it, with the reason.
"""

import dataclasses
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable

import numpy

from compare.deploy import isa as instruction_sets

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Absent(Exception):
    """Why a side does not run a model."""


@dataclasses.dataclass
class Runner:
    """A model that is open: call() runs it, output() is what it put out then."""

    call: Callable[[], object]
    output: Callable[[], numpy.ndarray]
    kept: object = None  # what must live as long


def brim_rt():
    """python/brim_rt.py, in the source tree or where it is installed."""
    folder = os.path.join(ROOT, "python")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("brim_rt")


def open_brim(about, x, y, threads, isa):
    model = brim_rt().Model(about["files"]["engine"])
    # Others are let have VNNI, too.
    session = model.session(batch=len(x), threads=threads, isa=None if isa == "avx512" else isa)
    out = numpy.empty_like(y)
    return Runner(session.bind([x], [out]), lambda: out, (model, session))


def open_onnxruntime(about, x, y, threads, _isa):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(about["files"]["onnx"], options, providers=["CPUExecutionProvider"])
    out = onnxruntime.OrtValue.ortvalue_from_numpy(numpy.empty_like(y))
    binding = session.io_binding()
    binding.bind_ortvalue_input(session.get_inputs()[0].name, onnxruntime.OrtValue.ortvalue_from_numpy(x))
    binding.bind_ortvalue_output(session.get_outputs()[0].name, out)
    return Runner(lambda: session.run_with_iobinding(binding), out.numpy)


def open_openvino(about, x, _y, threads, _isa):
    import openvino

    core = openvino.Core()
    model = core.read_model(about["files"]["onnx"])
    model.reshape(list(x.shape))
    how = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    how["INFERENCE_PRECISION_HINT"] = "f32"  # else bf16 where the CPU has it
    request = core.compile_model(model, "CPU", how).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
    return Runner(request.infer, lambda: request.get_output_tensor().data, core)


def open_ncnn(about, x, y, threads, _isa):
    import ncnn

    path = about["files"]["ncnn"]
    net = ncnn.Net()
    net.opt.num_threads = threads
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
        setattr(net.opt, option, False)
    if net.load_param(path + ".param") or net.load_model(path + ".bin"):
        raise Absent(f"it does not read {path}.param")
    inputs = [ncnn.Mat(sample) for sample in x]  # it has no batches
    outputs = numpy.empty_like(y)

    def call():
        for i, sample in enumerate(inputs):
            with net.create_extractor() as extractor:
                extractor.input("in0", sample)
                _, found = extractor.extract("out0")
                outputs[i] = numpy.asarray(found).reshape(outputs[i].shape)

    return Runner(call, lambda: outputs)


def torch_network(name, classes, small):
    """The network in PyTorch with the same names of weights. `small`: pictures of 32 x 32."""
    if name == "tutorial-cnn":
        from compare.networks import TutorialNet

        return TutorialNet()
    base = name.removesuffix("-cifar")
    if importlib.util.find_spec("torchvision") is None:
        raise Absent("its networks are torchvision's, which is missing")
    import torchvision

    if base not in torchvision.models.list_models(module=torchvision.models):
        raise Absent(f"torchvision has no {name}")
    network = getattr(torchvision.models, base)(num_classes=classes)
    if small and base.startswith("resnet"):
        import torch

        network.conv1 = torch.nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
        network.maxpool = torch.nn.Identity()
    return network


def open_torch(about, x, y, threads, isa, compiled=True):
    if about["precision"] == "int8":
        raise Absent("it does not read QDQ")
    import torch

    from compare.deploy.samples import read

    torch.set_num_threads(threads)
    network = torch_network(about["model"], y.shape[1], x.shape[-1] == 32).eval()
    path = about["files"]["weights"]
    if path.endswith((".pth", ".pt")):
        network.load_state_dict(torch.load(path, weights_only=True))
    else:
        network.load_state_dict({name: torch.from_numpy(value) for name, value in read(path).items()})
    if compiled:
        import torch._inductor.config as inductor

        torch._dynamo.reset()  # else the second size of a batch is compiled for any size

        inductor.freezing = True  # weights are constants: laid out once, batch norm folded
        if isa:
            inductor.cpp.simdlen = instruction_sets.VECTOR_BITS[isa]
        network = torch.compile(network, dynamic=False)
    images = torch.from_numpy(x)

    @torch.inference_mode()
    def call():
        return network(images)

    if compiled:
        try:
            call()
        except Exception as error:  # torch.compile fails in many ways, a missing C++ compiler for one
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise Absent(f"torch.compile does not work here: {why}") from error
    return Runner(call, lambda: call().numpy())


def open_torch_eager(*arguments):
    return open_torch(*arguments, compiled=False)


def open_side(side, about, x, y, threads, isa):
    if why := about["absent"].get(side):
        raise Absent(why)
    return SIDES[side](about, x, y, threads, isa)


SIDES = {
    "brim": open_brim,
    "onnxruntime": open_onnxruntime,
    "openvino": open_openvino,
    "ncnn": open_ncnn,
    "torch": open_torch,
}
PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "ncnn": "ncnn", "torch": "torch"}


def missing(side):
    """Why a side is not there, or None."""
    package = PACKAGES.get(side)
    if package:
        return None if importlib.util.find_spec(package) else f"{package} is not installed in {sys.executable}"
    try:
        module = brim_rt()
        module.library()
    except Exception as error:  # pylint: disable=broad-except
        return str(error)
    return None


def version(side):
    package = PACKAGES.get(side)
    if package is None:
        return brim_rt().library().path
    from importlib.metadata import version as installed

    return installed(package)
