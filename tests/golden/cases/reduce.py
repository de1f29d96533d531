"""Reductions over any axes, softmax and log_softmax."""

import numpy as np
import torch

AXES = {
    "all": ((3, 5, 7), None, False),
    "first": ((3, 5, 7), [0], False),
    "middle_keep": ((3, 5, 7), [1], True),
    "last": ((3, 5, 7), [-1], False),
    "first_last": ((3, 5, 4), [0, -1], False),
    "every_keep": ((2, 3, 5), [0, 1, 2], True),
    "long_row": ((2, 133), [1], False),
    "scalar": ((), None, False),
    "size_one": ((4, 1), [1], False),
    "empty_result": ((0, 3), [1], False),
}


def _extreme(function):
    return lambda x, dim, keepdim: function(x, dim=tuple(range(x.dim())) if dim is None else dim, keepdim=keepdim)


def _prod(x, dim, keepdim):
    for d in sorted((d % x.dim() for d in (range(x.dim()) if dim is None else dim)), reverse=True):
        x = x.prod(d, keepdim=keepdim)
    return x


def _logsumexp(x, dim, keepdim):
    return torch.logsumexp(x, tuple(range(x.dim())) if dim is None else dim, keepdim)


FUNCTIONS = {
    "sum": lambda x, dim, keepdim: torch.sum(x, dim, keepdim),
    "mean": lambda x, dim, keepdim: torch.mean(x, dim, keepdim),
    "amax": _extreme(torch.amax),
    "amin": _extreme(torch.amin),
    "prod": _prod,
    "norm": lambda x, dim, keepdim: torch.linalg.vector_norm(x, 2, dim, keepdim),
    "logsumexp": _logsumexp,
}


def reduce(family):
    for op, function in FUNCTIONS.items():
        for name, (shape, dim, keepdim) in AXES.items():
            _reduction(family, op, name, function, shape, dim, keepdim)
        _reduction(family, op, "transposed", function, (5, 6), [0], False, {0: "transpose"})
        _reduction(family, op, "strided", function, (3, 5), [1], False, {0: "slice"})
    for op in ("sum", "prod"):
        _reduction(family, op, "empty_axis", FUNCTIONS[op], (3, 0), [1], False)
    for name, values in {"one_zero": [2, 0, 3], "two_zeros": [2, 0, 0], "no_zero": [2, 5, 3]}.items():
        x = np.array([values, [1, 2, 4]], np.float32)
        _reduction(family, "prod", name, _prod, None, [1], False, x=x)
    infinite = np.array([[np.inf, 1], [-np.inf, -np.inf], [1000, 1000], [-1000, 3]], np.float32)
    attrs = {"dim": [1], "keepdim": False}
    family.case("logsumexp", "extreme", lambda x: torch.logsumexp(x, 1), [infinite], attrs, grad=False)
    broken = np.array([[1, np.nan, 3], [4, 5, -np.inf]], np.float32)
    for op in ("sum", "amax", "amin"):
        family.case(op, "nan", lambda x, f=FUNCTIONS[op]: f(x, [1], False), [broken], attrs, grad=False)
    _integers(family)
    _variance(family)
    _arguments(family)
    _extrema(family)
    _logical(family)


def _reduction(family, op, name, function, shape, dim, keepdim, views=None, x=None, **more):
    if x is None:
        x = family.data(f"{op}/{name}", shape)
    attrs = {"dim": dim, "keepdim": keepdim, **more}
    family.case(op, name, lambda t: function(t, dim, keepdim), [x], attrs, views)


def _integers(family):
    x = family.integers("sum/i64", (3, 4), -9, 9)
    for op in ("sum", "amax", "amin"):
        attrs = {"dim": [0], "keepdim": False}
        family.case(op, "i64", lambda t, f=FUNCTIONS[op]: f(t, [0], False), [x], attrs, grad=False)
    mask = x > 0
    family.case("sum", "bool", lambda t: torch.sum(t, [1]), [mask], {"dim": [1], "keepdim": False}, grad=False)


def _variance(family):
    for correction in (0, 1):
        for name in ("all", "first", "middle_keep", "first_last", "long_row"):
            shape, dim, keepdim = AXES[name]
            function = lambda t, d, k, c=correction: torch.var(t, d, correction=c, keepdim=k)
            _reduction(family, "var", f"{name}_c{correction}", function, shape, dim, keepdim, correction=correction)
    offset = family.data("var/offset", (2, 50)) + np.float32(1000)
    function = lambda t, d, k: torch.var(t, d, correction=1, keepdim=k)
    _reduction(family, "var", "far_from_zero", function, None, [1], False, x=offset, correction=1)


def _arguments(family):
    for op, function in {"argmax": torch.argmax, "argmin": torch.argmin}.items():
        for name, dim, keepdim in (
            ("all", None, False),
            ("first", 0, False),
            ("middle_keep", 1, True),
            ("last", -1, False),
        ):
            x = family.data(f"{op}/{name}", (3, 5, 7))
            attrs = {"dim": dim, "keepdim": keepdim}
            family.case(op, name, lambda t, d=dim, k=keepdim, f=function: f(t, d, k), [x], attrs, grad=False)
        attrs = {"dim": 0, "keepdim": False}
        x = family.data(f"{op}/transposed", (5, 6))
        family.case(op, "transposed", lambda t, f=function: f(t, 0), [x], attrs, {0: "transpose"}, grad=False)
        attrs = {"dim": 1, "keepdim": False}
        x = np.array([[1, np.nan, 3, np.nan], [4, 5, 5, -np.inf]], np.float32)
        family.case(op, "nan_and_ties", lambda t, f=function: f(t, 1), [x], attrs, grad=False)
        x = family.integers(f"{op}/i64", (3, 4), -99, 99)
        family.case(op, "i64", lambda t, f=function: f(t, 1), [x], attrs, grad=False)


def _extrema(family):
    """Values with the indices of the first among equals; the gradient goes to that one."""
    for op, function in {"max": torch.max, "min": torch.min}.items():
        for name, dim, keepdim in (("first", 0, False), ("middle_keep", 1, True), ("last", -1, False)):
            x = family.data(f"{op}/{name}", (3, 5, 7))
            attrs = {"dim": dim, "keepdim": keepdim}
            family.case(op, name, lambda t, d=dim, k=keepdim, f=function: tuple(f(t, d, k)), [x], attrs)
        x = np.array([[1, 3, 3, 1], [5, 4, 5, 4]], np.float32)
        family.case(op, "ties", lambda t, f=function: tuple(f(t, 1)), [x], {"dim": 1, "keepdim": False})


def _logical(family):
    def over(function):
        def apply(x, dim, keepdim):
            for d in sorted((d % x.dim() for d in (range(x.dim()) if dim is None else dim)), reverse=True):
                x = function(x, d, keepdim)
            return x

        return apply

    for op, function in {"any": over(torch.any), "all": over(torch.all)}.items():
        likely = 0.15 if op == "any" else 0.85
        for name in ("all", "first", "middle_keep", "first_last", "empty_result"):
            shape, dim, keepdim = AXES[name]
            x = family.data(f"{op}/{name}", shape, 0.0, 1.0) < likely
            attrs = {"dim": dim, "keepdim": keepdim}
            family.case(op, name, lambda t, f=function, d=dim, k=keepdim: f(t, d, k), [x], attrs, grad=False)
        attrs = {"dim": [1], "keepdim": False}
        x = np.zeros((3, 0), bool)
        family.case(op, "empty_axis", lambda t, f=function: f(t, [1], False), [x], attrs, grad=False)


def softmax(family):
    for op, function in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():
        for name, shape, dim, views in (
            ("last", (3, 5, 7), -1, {}),
            ("first", (3, 5, 7), 0, {}),
            ("middle", (3, 5, 7), 1, {}),
            ("row", (4, 133), 1, {}),
            ("vector", (10,), 0, {}),
            ("size_one", (4, 1), 1, {}),
            ("transposed", (5, 6), 1, {0: "transpose"}),
            ("strided", (3, 5), 1, {0: "slice"}),
            ("empty", (0, 5), 1, {}),
        ):
            x = family.data(f"{op}/{name}", shape)
            family.case(op, name, lambda t, d=dim, f=function: f(t, d), [x], {"dim": dim}, views)
        extreme = np.array([[1000, 999, -1000], [-1000, -1001, -1002], [0, -np.inf, 1]], np.float32)
        family.case(op, "extreme", lambda t, f=function: f(t, 1), [extreme], {"dim": 1}, grad=False)
