"""Functions of one tensor, arithmetic, comparisons, masks, what works in place, creation."""

import math

import torch
import torch.nn.functional as F

from drawing import ALL, FLOATS, INTEGERS, NUMBERS, SIGNED, TORCH, op

INF = math.inf


def _unary(name, function, low=None, high=None, **options):
    @op(name, **options)
    def draw(d):
        bounded = low is not None and not d.special and d.chance(0.7)
        d.input(d.shape(), low if bounded else None, high)
        return function


_unary("neg", torch.neg, dtypes=SIGNED)
_unary("abs", torch.abs, dtypes=NUMBERS)
_unary("exp", torch.exp)
_unary("expm1", torch.expm1)
_unary("log", torch.log, 0.01, 10)
_unary("log1p", torch.log1p, -0.9, 5)
_unary("log2", torch.log2, 0.01, 10)
_unary("log10", torch.log10, 0.01, 10)
_unary("sqrt", torch.sqrt, 0, 9)
_unary("rsqrt", torch.rsqrt, 0.05, 9)
_unary("square", torch.square, dtypes=NUMBERS)
_unary("reciprocal", torch.reciprocal, 0.1, 4)
_unary("sin", torch.sin)
_unary("cos", torch.cos)
_unary("tanh", torch.tanh)
_unary("erf", torch.erf)
_unary("sign", torch.sign, dtypes=NUMBERS, perturb="none")
_unary("floor", torch.floor, perturb="none")
_unary("ceil", torch.ceil, perturb="none")
_unary("round", torch.round, perturb="none")
_unary("sigmoid", torch.sigmoid)
_unary("relu", torch.relu, dtypes=NUMBERS, perturb="none")
_unary("silu", F.silu)
_unary("isnan", torch.isnan, dtypes=ALL, order=0, perturb="none")
_unary("isfinite", torch.isfinite, dtypes=ALL, order=0, perturb="none")
_unary("logical_not", torch.logical_not, dtypes=ALL, order=0, perturb="none")
_unary("zeros_like", torch.zeros_like, dtypes=ALL, order=0, perturb="none")
_unary("ones_like", torch.ones_like, dtypes=ALL, order=0, perturb="none")


@op("pow_scalar")
def pow_scalar(d):
    exponent = d.attr("exponent", d.pick([0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 4.0, 1.5, -1.5, 2.75, 0.3125]))
    whole = exponent == round(exponent)
    d.input(d.shape(), *((None, None) if whole and d.chance(0.5) else (0.05, 4)))
    return lambda x: torch.pow(x, exponent)


@op("clamp", dtypes=NUMBERS, perturb="none")
def clamp(d):
    low = d.attr("min", None if d.chance(0.3) else d.number(-2, 1))
    high = d.attr("max", d.number(-1, 2) if low is None or d.chance(0.7) else None)
    if d.dtype in INTEGERS:
        low, high = (d.attr(key, None if v is None else abs(int(v)) if d.dtype == "u8" else int(v)) for key, v in (("min", low), ("max", high)))
    d.input(d.shape())
    return lambda x: torch.clamp(x, low, high)


@op("leaky_relu")
def leaky_relu(d):
    slope = d.attr("negative_slope", d.pick([0.01, 0.2, 0.0, 1.0, -0.5]))
    d.input(d.shape())
    return lambda x: F.leaky_relu(x, slope)


@op("elu")
def elu(d):
    alpha = d.attr("alpha", d.pick([1.0, 0.5, 2.0]))
    d.input(d.shape())
    return lambda x: F.elu(x, alpha)


@op("gelu")
def gelu(d):
    form = d.attr("approximate", d.pick(["none", "tanh"]))
    d.input(d.shape())
    d.steps = lambda x: gelu_steps(x, form)
    return lambda x: F.gelu(x, approximate=form)


def gelu_steps(x, form="none"):
    if form == "none":
        return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@op("softplus")
def softplus(d):
    # No input is 2.01, where PyTorch's second gradient is that of the line.
    beta, threshold = d.attr("beta", d.pick([1.0, 0.5, 3.0])), d.attr("threshold", d.pick([20.0, 20.0, 2.01]))
    d.input(d.shape())
    return lambda x: F.softplus(x, beta, threshold)


@op("dropout", perturb="none")
def dropout(d):
    training = d.attr("training", d.chance(0.5))
    p = d.attr("p", d.pick([0.0, 1.0]) if training else 0.5)  # what no generator decides
    d.input(d.shape())
    return lambda x: F.dropout(x, p, training)


# --- two tensors, a tensor and a number


def _pair(d, low=None, high=None, b_low=None, b_high=None):
    shape = d.shape()
    other = d.broadcast(shape)
    if d.chance(0.1):
        shape, other = other, shape
    d.input(shape, low, high)
    d.input(other, b_low, b_high)


def _binary(name, function, **options):
    @op(name, **options)
    def draw(d):
        _pair(d)
        return function


_binary("mul", torch.mul, dtypes=NUMBERS)
_binary("maximum", torch.maximum, dtypes=NUMBERS, perturb="none")
_binary("minimum", torch.minimum, dtypes=NUMBERS, perturb="none")
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"):
    _binary(_name, getattr(torch, _name), dtypes=ALL, order=0, perturb="none")


def _sum(name, function):
    @op(name, dtypes=NUMBERS)
    def draw(d):
        alpha = d.attr("alpha", 1.0 if d.chance(0.6) or d.dtype == "u8" else d.number())
        d.largest = d.largest and alpha == 1  # alpha times the largest may overflow, or be fused with the sum
        _pair(d)
        whole = int(alpha) if d.dtype in INTEGERS else alpha
        return lambda a, b: function(a, b, alpha=whole)


_sum("add", torch.add)
_sum("sub", torch.sub)


@op("div", dtypes=NUMBERS)
def div(d):
    away = d.chance(0.7) and d.dtype in FLOATS and not d.special
    _pair(d, b_low=0.2 if away else None, b_high=3)
    d.out_dtype = d.dtype if d.dtype in FLOATS else "f32"
    return torch.div


@op("pow")
def power(d):
    if d.chance(0.7):
        _pair(d, 0.1, 3, -2, 3)
    elif d.order == 0:
        _pair(d)
    else:  # whole exponents, of negative numbers, too
        shape = d.shape()
        d.input(shape)
        d.add(torch.as_tensor(d.rng.integers(-2, 4, d.broadcast(shape))).to(TORCH[d.dtype]))
    return torch.pow


@op("atan2")
def atan2(d):
    _pair(d)
    return torch.atan2


def _left(name, function):
    """What a division leaves, by no 0: PyTorch refuses those of integers, and counts infinitely many for the gradient."""

    @op(name, dtypes=NUMBERS, perturb="inner")
    def draw(d):
        if d.special:
            d.order = 0
        shape = d.shape()
        d.input(shape)
        other = d.values(d.broadcast(shape), d.dtype)
        d.add(torch.where(other == 0, torch.ones_like(other), other))
        return function

    @op(name + "_scalar", dtypes=NUMBERS, perturb="inner")
    def draw_scalar(d):
        other = d.number()
        other = d.attr("other", abs(other or 1.5) if d.dtype == "u8" else other or 1.5)
        if d.dtype in INTEGERS:
            other = d.attr("other", float(math.ceil(other)))
        d.input(d.shape())
        return lambda x: function(x, int(other) if d.dtype in INTEGERS else other)


_left("remainder", torch.remainder)
_left("fmod", torch.fmod)


def _scalar(name, function, dtypes=NUMBERS, fractions=False, **options):
    @op(name, dtypes=dtypes, **options)
    def draw(d):
        other = d.number()
        if d.special and d.chance(0.2):
            other = d.pick([INF, -INF, math.nan])
        if d.dtype == "u8":
            other = abs(other)
        if fractions and d.dtype in INTEGERS:
            other += 0.25
            d.out_dtype = "f32"
        if name == "div_scalar" and other == 0:
            other = 0.5
        d.attr("other", other)
        d.input(d.shape())
        number = int(other) if d.dtype in INTEGERS + ("bool",) and not fractions else other
        return lambda x: function(x, number)


_scalar("add_scalar", torch.add)
_scalar("sub_scalar", torch.sub)
_scalar("rsub_scalar", torch.rsub)
_scalar("mul_scalar", torch.mul)
_scalar("div_scalar", torch.div, fractions=True)
_scalar("rdiv_scalar", lambda x, v: v / x, fractions=True)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _scalar(_name + "_scalar", getattr(torch, _name), dtypes=NUMBERS, order=0, perturb="none")


# --- masks, casts


@op("where", dtypes=ALL, perturb="none")
def where(d):
    shape = d.shape()
    d.input(d.broadcast(shape), dtype="bool")
    d.input(d.broadcast(shape))
    d.input(shape)
    return torch.where


@op("masked_fill", dtypes=ALL, perturb="none")
def masked_fill(d):
    value = float(d.int(0, 1)) if d.dtype == "bool" else abs(d.number()) if d.dtype == "u8" else d.number()
    if d.dtype in FLOATS and d.chance(0.15):
        value = d.pick([INF, -INF, math.nan])
    d.attr("value", value)
    shape = d.shape()
    d.input(shape)
    d.input(d.broadcast(shape), dtype="bool")
    return lambda x, mask: torch.masked_fill(x, mask, value)


@op("cast", dtypes=ALL, perturb="none")
def cast(d):
    """Floats to integers only where the integers hold them; PyTorch leaves the rest undefined."""
    to = d.attr("dtype", d.pick(ALL))
    d.out_dtype, whole = to, to in INTEGERS
    if d.dtype not in FLOATS or to not in FLOATS:
        d.order = 0
    if whole and d.dtype in FLOATS:
        d.input(d.shape(), 0 if to == "u8" else -100, 100, special=False)
    else:
        d.input(d.shape())
    source = TORCH[d.dtype]

    def reference(x):
        y = x.to(source).to(TORCH[to])
        return y.double() if to in FLOATS else y

    return reference


# --- in place


def _in_place(name, function, dtypes=NUMBERS, low=None, high=None):
    @op(name, dtypes=dtypes, order=0)
    def draw(d):
        shape = d.shape()
        d.input(shape, layout="" if d.chance(0.5) else None)
        other = d.broadcast(shape)
        d.input(other if len(other) <= len(shape) and torch.broadcast_shapes(other, shape) == shape else shape, low, high)
        return function


_in_place("add_", torch.add)
_in_place("mul_", torch.mul)
_in_place("div_", torch.div, FLOATS, 0.2, 3)


@op("copy_", dtypes=ALL, order=0, perturb="none")
def copy_(d):
    shape = d.shape()
    d.input(shape)
    other = d.broadcast(shape)
    source = d.pick([t for t in ALL if d.dtype not in INTEGERS or t not in FLOATS])
    d.input(other if torch.broadcast_shapes(other, shape) == shape else shape, dtype=source)
    return lambda y, x: x.to(TORCH[source]).to(TORCH[d.dtype]).expand(shape)


@op("fill_", dtypes=ALL, order=0, perturb="none")
def fill_(d):
    value = d.attr("value", float(d.int(0, 1)) if d.dtype == "bool" else abs(d.number()))
    d.input(d.shape())
    return lambda x: torch.full_like(x, value).to(TORCH[d.dtype])


# --- creation


def _creation(name, function):
    @op(name, dtypes=ALL, order=0, perturb="none")
    def draw(d):
        shape = d.attr("shape", list(d.shape()))
        d.attr("dtype", d.dtype)
        value = d.attr("value", float(d.int(0, 1)) if d.dtype == "bool" else abs(d.number()))
        return lambda: function(shape, value).to(TORCH[d.dtype])


_creation("full", torch.full)
_creation("zeros", lambda shape, _: torch.zeros(shape))
_creation("ones", lambda shape, _: torch.ones(shape))


@op("full_like", dtypes=ALL, order=0, perturb="none")
def full_like(d):
    value = d.attr("value", float(d.int(0, 1)) if d.dtype == "bool" else abs(d.number()))
    d.input(d.shape())
    return lambda x: torch.full_like(x, value)


@op("arange", dtypes=NUMBERS, order=0)
def arange(d):
    d.attr("dtype", d.dtype)
    start, step = d.number(0, 9), abs(d.number(0.3, 4)) + (0 if d.dtype in INTEGERS else 0.25)
    step = max(step, 1.0) if d.dtype in INTEGERS else step
    end = start + d.int(0, 12) * step + d.number(0, 1)
    if d.dtype != "u8" and d.chance(0.3):
        start, end, step = -start, -end, -step
    d.attr("start", start), d.attr("end", end), d.attr("step", step)
    count = math.ceil((end - start) / step)
    return lambda: (start + torch.arange(count, dtype=torch.float64) * step).to(torch.float64 if d.dtype in FLOATS else TORCH[d.dtype])


@op("linspace", order=0)
def linspace(d):
    d.attr("dtype", d.dtype)
    start, end, steps = d.attr("start", d.number()), d.attr("end", d.number()), d.attr("steps", d.int(0, 40))
    # Twice the larger of the two is what its terms add up to.
    return lambda: torch.linspace(start, end, steps, dtype=torch.float64) + 2 * (abs(start) + abs(end)) - 2 * (abs(start) + abs(end))


@op("eye", dtypes=ALL, order=0, perturb="none")
def eye(d):
    d.attr("dtype", d.dtype)
    n, m = d.attr("n", d.int(0, 7)), d.attr("m", d.int(-1, 7))
    return lambda: torch.eye(n, n if m < 0 else m).to(TORCH[d.dtype])
