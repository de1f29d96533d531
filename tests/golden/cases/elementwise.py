"""Unary and binary elementwise ops, comparison, where, cast, dropout's exact cases."""

import numpy as np
import torch
import torch.nn.functional as F

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], dtype=np.float32)
POSITIVE = (0.1, 3.0)

# op -> (function, range of the inputs or None for normal numbers)
PLAIN = {
    "neg": (torch.neg, None),
    "abs": (torch.abs, None),
    "exp": (torch.exp, None),
    "log": (torch.log, POSITIVE),
    "sqrt": (torch.sqrt, POSITIVE),
    "rsqrt": (torch.rsqrt, POSITIVE),
    "sin": (torch.sin, (-9.0, 9.0)),
    "cos": (torch.cos, (-9.0, 9.0)),
    "tanh": (torch.tanh, (-4.0, 4.0)),
    "sigmoid": (torch.sigmoid, (-6.0, 6.0)),
    "relu": (torch.relu, None),
    "silu": (F.silu, (-6.0, 6.0)),
    "erf": (torch.erf, (-3.0, 3.0)),
    "square": (torch.square, None),
    "reciprocal": (torch.reciprocal, POSITIVE),
    "expm1": (torch.expm1, None),
    "log1p": (torch.log1p, POSITIVE),
    "sign": (torch.sign, None),
    "floor": (torch.floor, None),
    "ceil": (torch.ceil, None),
    "round": (torch.round, (-5.0, 5.0)),
}

WITH_OPTIONS = [
    ("leaky_relu", "slope_0p01", F.leaky_relu, {"negative_slope": 0.01}, None),
    ("leaky_relu", "slope_0p3", F.leaky_relu, {"negative_slope": 0.3}, None),
    ("gelu", "none", F.gelu, {"approximate": "none"}, (-4.0, 4.0)),
    ("gelu", "tanh", F.gelu, {"approximate": "tanh"}, (-4.0, 4.0)),
    ("elu", "alpha_1", F.elu, {"alpha": 1.0}, None),
    ("elu", "alpha_0p5", F.elu, {"alpha": 0.5}, None),
    ("softplus", "plain", F.softplus, {"beta": 1.0, "threshold": 20.0}, (-5.0, 25.0)),
    ("softplus", "beta_3", F.softplus, {"beta": 3.0, "threshold": 4.0}, (-3.0, 3.0)),
    ("pow_scalar", "2", torch.pow, {"exponent": 2.0}, None),
    ("pow_scalar", "3", torch.pow, {"exponent": 3.0}, None),
    ("pow_scalar", "0p5", torch.pow, {"exponent": 0.5}, POSITIVE),
    ("pow_scalar", "minus_1", torch.pow, {"exponent": -1.0}, POSITIVE),
    ("pow_scalar", "2p5", torch.pow, {"exponent": 2.5}, POSITIVE),
    ("pow_scalar", "0", torch.pow, {"exponent": 0.0}, None),
    ("clamp", "both", torch.clamp, {"min": -0.5, "max": 0.75}, None),
    ("clamp", "min", torch.clamp, {"min": 0.25}, None),
    ("clamp", "max", torch.clamp, {"max": 0.25}, None),
]


def unary(family):
    for op, (function, bounds) in PLAIN.items():
        _layouts(family, op, function, {}, bounds, "")
    for op, name, function, attrs, bounds in WITH_OPTIONS:
        _layouts(family, op, lambda x, f=function, a=attrs: f(x, **a), attrs, bounds, name + "_")


def _layouts(family, op, function, attrs, bounds, prefix):
    low, high = bounds or (None, None)

    def add(name, shape, views=None):
        x = family.data(f"{op}/{prefix}{name}", shape, low, high)
        family.case(op, prefix + name, function, [x], attrs, views)

    add("odd", (3, 5, 7))
    add("transposed", (4, 6), {0: "transpose"})
    add("strided", (3, 5), {0: "slice"})
    add("scalar", ())
    add("empty", (0, 3))
    family.case(op, prefix + "special", function, [SPECIAL], attrs, grad=False)
    if bounds is None:  # the point where a kink may sit
        family.case(op, prefix + "at_zero", function, [np.zeros(3, np.float32)], attrs)


ARITHMETIC = {
    "add": (torch.add, None),
    "sub": (torch.sub, None),
    "mul": (torch.mul, None),
    "div": (torch.div, POSITIVE),
    "maximum": (torch.maximum, None),
    "minimum": (torch.minimum, None),
    "pow": (torch.pow, POSITIVE),
}

COMPARISON = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}

SHAPES = {
    "same": ((3, 5), (3, 5), {}),
    "broadcast": ((3, 1, 5), (4, 1), {}),
    "row": ((4, 7), (7,), {}),
    "column": ((4, 7), (4, 1), {}),
    "scalar_tensor": ((2, 3), (), {}),
    "both_scalars": ((), (), {}),
    "ones": ((1, 1), (2, 3), {}),
    "transposed": ((4, 6), (4, 6), {0: "transpose"}),
    "strided_broadcast": ((2, 3, 5), (3, 5), {1: "slice"}),
    "empty": ((0, 3), (3,), {}),
    "empty_broadcast": ((2, 0), (1, 1), {}),
}


def binary(family):
    for op, (function, bounds) in ARITHMETIC.items():
        low, high = bounds or (None, None)
        for name, (left, right, views) in SHAPES.items():
            a = family.data(f"{op}/{name}/a", left, low, high)
            b = family.data(f"{op}/{name}/b", right, low, high)
            family.case(op, name, function, [a, b], views=views)
    for op, function in COMPARISON.items():
        for name in ("same", "broadcast", "transposed", "empty"):
            left, right, views = SHAPES[name]
            a = family.integers(f"{op}/{name}/a", left, -2, 3).astype(np.float32)
            b = family.integers(f"{op}/{name}/b", right, -2, 3).astype(np.float32)
            family.case(op, name, function, [a, b], views=views, grad=False)
        a, b = np.meshgrid(SPECIAL, SPECIAL, indexing="ij")
        family.case(op, "special", function, [a, b], grad=False)
        a, b = family.integers(f"{op}/i64/a", (3, 4), -2, 3), family.integers(f"{op}/i64/b", (4,), -2, 3)
        family.case(op, "i64", function, [a, b], grad=False)
    for op in ("add", "sub", "mul", "maximum", "minimum"):
        a, b = family.integers(f"{op}/i64/a", (3, 4), -9, 9), family.integers(f"{op}/i64/b", (4,), -9, 9)
        family.case(op, "i64", ARITHMETIC[op][0], [a, b], grad=False)
    for op in ("maximum", "minimum"):
        a, b = np.meshgrid(SPECIAL, SPECIAL, indexing="ij")
        family.case(op, "special", ARITHMETIC[op][0], [a, b], grad=False)
        same = np.array([1, 2, 3], np.float32)  # the gradient of a tie is shared
        family.case(op, "ties", ARITHMETIC[op][0], [same, same.copy()])
    _where(family)
    _cast(family)


def _where(family):
    shapes = {
        "same": ((3, 5), (3, 5), (3, 5), {}),
        "broadcast": ((3, 1), (2, 1, 5), (), {}),
        "condition_wider": ((4, 3, 5), (5,), (3, 1), {}),
        "transposed": ((4, 6), (4, 6), (4, 6), {0: "transpose", 2: "transpose"}),
        "empty": ((0, 3), (3,), (1, 3), {}),
    }
    for name, (condition, left, right, views) in shapes.items():
        mask = family.integers(f"where/{name}/mask", condition, 0, 2).astype(bool)
        a, b = family.data(f"where/{name}/a", left), family.data(f"where/{name}/b", right)
        family.case("where", name, torch.where, [mask, a, b], views=views)


def _cast(family):
    numbers = family.data("cast/numbers", (3, 5), -100.0, 100.0)
    types = {"i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "bool": torch.bool}
    for name, dtype in types.items():
        family.case("cast", f"to_{name}", lambda x, d=dtype: x.to(d), [numbers], {"dtype": name}, grad=False)
    family.case("cast", "to_u8", lambda x: x.to(torch.uint8), [np.abs(numbers)], {"dtype": "u8"}, grad=False)
    family.case("cast", "to_f64", lambda x: x.to(torch.float64), [numbers], {"dtype": "f64"})
    for name, dtype in {"i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}.items():
        whole = family.integers(f"cast/from_{name}", (2, 7), 0, 2 if name == "bool" else 200).astype(dtype)
        family.case("cast", f"{name}_to_f32", lambda x: x.to(torch.float32), [whole], {"dtype": "f32"}, grad=False)
