"""Elementwise ops in PyTorch. bench/command/sweep/elementwise.cpp is brim's side."""

import torch
import torch.nn.functional as F

from compare.sweep.operands import forward, leaf, operand, operand_shape, training, values

UNARY = {
    "neg": torch.neg,
    "abs": torch.abs,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "log10": torch.log10,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "square": torch.square,
    "reciprocal": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "pow-2.5": lambda x: torch.pow(x, 2.5),
    "clamp": lambda x: torch.clamp(x, -0.5, 0.5),
    "sign": torch.sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "softplus": F.softplus,
    "add-number": lambda x: x + 2.5,
    "mul-number": lambda x: x * 2.5,
    "div-number": lambda x: x / 2.5,
    "remainder-number": lambda x: x % 0.3,
}
POSITIVE = ("log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "pow-2.5")
UNARY_TRAINS = ("exp", "log", "sqrt", "square", "tanh", "clamp")
UNARY_TRAINS += ("sigmoid", "relu", "gelu", "gelu-tanh", "silu", "softplus")

BINARY = {
    "add": torch.add,
    "add-alpha": lambda a, b: torch.add(a, b, alpha=0.5),
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "atan2": torch.atan2,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}
BINARY_TRAINS = ("add", "mul", "div", "maximum")


def second_operand(case, kind="positive"):
    shape = operand_shape(case.layout, case.elements)
    if case.layout.startswith("row-"):
        return values((shape[1],), case.dtype, kind)
    if case.layout == "column":
        return values((shape[0], 1), case.dtype, kind)
    if case.layout.startswith("channel-"):
        return values((shape[1], 1, 1), case.dtype, kind)
    # Against a transposed operand a row-major one: a loop cannot go along both.
    return values(shape, case.dtype, kind) if case.layout == "transposed" else operand(case, kind)


def unary(function, kind):
    return lambda case: forward(function, operand(case, kind))


def unary_training(function, kind):
    return lambda case: training(function, leaf((case.elements,), case.dtype, kind))


def binary(function):
    return lambda case: forward(function, operand(case, "positive"), second_operand(case))


def binary_training(function):
    return lambda case: training(
        function, operand(case, "positive").requires_grad_(), second_operand(case).requires_grad_()
    )


def where(case):
    x = operand(case)
    return forward(torch.where, x > 0, x, second_operand(case))


def where_training(case):
    x = operand(case)
    return training(torch.where, x > 0, x.clone().requires_grad_(), second_operand(case).requires_grad_())


def masked_fill(case):
    x = operand(case)
    return forward(lambda a, mask: a.masked_fill(mask, 1), x, x > 0)


def elementwise_ops():
    def kind(name):
        return "positive" if name in POSITIVE else "normal"

    return {
        **{name: unary(function, kind(name)) for name, function in UNARY.items()},
        **{name: binary(function) for name, function in BINARY.items()},
        "add_": lambda case: forward(lambda x, y: x.add_(y), operand(case), second_operand(case, "normal")),
        "mul_": lambda case: forward(lambda x, y: x.mul_(y), operand(case), torch.ones_like(second_operand(case))),
        "gt-number": lambda case: forward(lambda x: x > 0.5, operand(case)),
        "isnan": lambda case: forward(torch.isnan, operand(case)),
        "isfinite": lambda case: forward(torch.isfinite, operand(case)),
        "logical_not": lambda case: forward(torch.logical_not, operand(case)),
        "where": where,
        "masked_fill": masked_fill,
        **{f"{name}-train": unary_training(UNARY[name], kind(name)) for name in UNARY_TRAINS},
        **{f"{name}-train": binary_training(BINARY[name]) for name in BINARY_TRAINS},
        "where-train": where_training,
    }
