"""What the ops of the sweep are made of. bench/command/sweep/operands.cpp has the same."""

import dataclasses
import math
from typing import Callable

import torch

DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "u8": torch.uint8,
    "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MAX_SIDE = 32


@dataclasses.dataclass(frozen=True)
class Case:
    layout: str
    dtype: torch.dtype
    elements: int


@dataclasses.dataclass(frozen=True)
class Run:
    step: Callable
    results: Callable  # -> tensors of one step; of a training step the output and the gradients
    trains: bool = False


def values(shape, dtype, kind="normal"):
    """Random numbers: normal, positive in [0.05, 1.05), near_one; of integers 0 to 99, of bool either."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape).to(torch.bool)
    if not dtype.is_floating_point:
        return torch.randint(0, 100, shape).to(dtype)
    if kind == "normal":
        return torch.randn(shape).to(dtype)
    return (torch.rand(shape) + 0.05 if kind == "positive" else torch.rand(shape) * 1e-3 + 0.9995).to(dtype)


def root(n):
    return max(1, math.isqrt(n))


def channels_for(elements):
    return 16 if elements < 100_000 else 64


def image_shape(elements, channels):
    side = min(MAX_SIDE, root(elements // channels))
    side -= side % 4 if side > 4 else 0
    return (max(1, elements // (channels * side * side)), channels, side, side)


def operand_shape(layout, n):
    if layout in ("dense", "strided", "all"):
        return (n,)
    if layout == "transposed":
        return (root(n), n // root(n))
    if layout.endswith(("nchw", "nhwc")):
        return image_shape(n, channels_for(n))
    width = int(layout.rsplit("-", 1)[1]) if "-" in layout else 256
    return (max(1, n // width), width)


def in_format(x, layout):
    return x.contiguous(memory_format=torch.channels_last) if layout.endswith("nhwc") else x


def operand(case, kind="normal"):
    shape = operand_shape(case.layout, case.elements)
    if case.layout == "strided":
        return values((2 * shape[0],), case.dtype, kind)[::2]
    if case.layout == "transposed":
        return values((shape[1], shape[0]), case.dtype, kind).t()
    return in_format(values(shape, case.dtype, kind), case.layout)


def hashed(shape, bound):
    """The same i64 in [0, bound) here and in brim, in no order."""
    numbers = torch.arange(math.prod(shape)) * 2654435761 % (1 << 32) // 128 % bound
    return numbers.reshape(shape)


def leaf(shape, dtype, kind="normal"):
    return values(shape, dtype, kind).requires_grad_()


def listed(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def forward(function, *inputs):
    def step():
        return function(*inputs)

    return Run(step, lambda: listed(step()))


def training(function, *inputs):
    leaves = [x for x in inputs if x.requires_grad]
    y = function(*inputs)
    gradient = values(y.shape, y.dtype) if y.dim() else None

    def step():
        for x in leaves:
            x.grad = None
        result = function(*inputs)
        result.backward(gradient)
        return result

    return Run(step, lambda: [step(), *(x.grad for x in leaves)], trains=True)


def with_training(name, make):
    """{op and its training: builder}; make(case, run) calls run(function, *inputs)"""

    def without_gradients(function, *inputs):
        return forward(function, *(x.detach() for x in inputs))

    return {name: lambda case: make(case, without_gradients), f"{name}-train": lambda case: make(case, training)}
