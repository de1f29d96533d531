"""What PyTorch computes from a draw, in f64, and how far brim's result may be from that.

The tolerance of an element is k u (|y| + s), u the dtype's unit roundoff. s is what cancels on the way to it: PyTorch computes
the same again a few times while each input and each intermediate result is changed by a random share of u, and s u is the
largest change of the result (Monte Carlo arithmetic: Parker 1997). For a sum it grows like the sum of |terms|; for what chooses
or moves elements it is 0, and outputs are exact. A confirmation uses more samples than the first look.
"""

import contextlib
import math
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from drawing import FLOATS, NAMES, TORCH

ROUNDOFF = {"f32": 2.0**-24, "f64": 2.0**-53, "f16": 2.0**-11, "bf16": 2.0**-8}
SMALLEST = {"f32": 2.0**-149, "f64": 5e-324, "f16": 2.0**-24, "bf16": 2.0**-133}
CHANGE = {"f64": 2.0**-30}  # what u itself would be lost in
FACTOR = {"y": 4.0, "g": 8.0, "h": 16.0}  # k; more in f64, where PyTorch's own result is rounded alike


class Perturb(TorchDispatchMode):
    """Each floating result of each operation, forwards and backwards, is off by a random share of `change`, and what the dtype
    does not hold becomes infinite or 0: gradients may overflow on the way, as PyTorch's own in that dtype do."""

    def __init__(self, dtype, change, smallest, generator):
        super().__init__()
        self.change, self.smallest, self.generator = change, smallest, generator
        self.largest = torch.finfo(TORCH[dtype]).max

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function is torch.ops.aten._efficientzerotensor.default:
            return torch.zeros(arguments[0], dtype=torch.float64)
        result = function(*arguments, **(options or {}))
        if any(r.alias_info is not None for r in function._schema.returns):
            return result
        if isinstance(result, (tuple, list)):
            return type(result)(self.changed(t) for t in result)
        return self.changed(result)

    def changed(self, t):
        if not isinstance(t, torch.Tensor) or t.dtype != torch.float64 or t.numel() == 0:
            return t
        noise = torch.rand(t.shape, dtype=torch.float64, generator=self.generator).mul_(2).sub_(1)
        changed = torch.where((t == 0) | torch.isinf(t), t, t + noise * (t.abs() * self.change + self.smallest))
        changed = torch.where(changed.abs() > self.largest, changed * math.inf, changed)
        return torch.where(changed.abs() < self.smallest / 2, 0.0, changed)


def compute(draw, function, inputs, order, w, v):
    """Outputs, gradients, second gradients; None where there is none. The indices of the outputs that w weights."""
    leaves = [t for t, wanted in zip(inputs, draw.differentiable) if wanted]
    if order:
        for t in leaves:
            t.requires_grad_()
    y = function(*inputs)
    y = list(y) if isinstance(y, (tuple, list)) else [y]
    sources = [i for i, t in enumerate(y) if t.requires_grad]
    if not order or not sources or not leaves:
        return y, [], [], []
    if w is None:
        w = draw.weights([y[i] for i in sources], [draw.dtype_of_output(i) for i in sources])
    w = [t.clone().requires_grad_(order > 1) for t in w]
    g = torch.autograd.grad([y[i] for i in sources], leaves, w, create_graph=order > 1, allow_unused=True)
    if order == 1:
        return y, list(g), [], sources
    recorded = [(t, weight) for t, weight in zip(g, v) if t is not None and t.requires_grad]
    h = [None] * (len(leaves) + len(w))
    if recorded:
        h = torch.autograd.grad([t for t, _ in recorded], [*leaves, *w], [weight for _, weight in recorded], allow_unused=True)
    return y, list(g), list(h), sources


class Result:
    """What an output or a gradient should be. tolerance: None if exactly so."""

    def __init__(self, dtype, values, tolerance):
        self.dtype, self.values, self.tolerance, self.compared = dtype, values, tolerance, True

    def ignore(self, where):
        """Elements that may be anything."""
        assert where.shape == self.values.shape
        tolerance = torch.zeros(self.values.shape, dtype=torch.float64) if self.tolerance is None else self.tolerance
        self.tolerance = torch.where(where, math.inf, tolerance)


class Expectation:
    """The results of a draw: outputs y, gradients g, second gradients h; or why PyTorch refuses it."""

    def __init__(self, draw, samples):
        self.draw, self.order, self.refused, self.free = draw, draw.order, None, False
        self.sources, self.w, self.v = [], [], []
        self.y = self.g = self.h = ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.compute(samples)

    def compute(self, samples):
        draw = self.draw
        wide = lambda: [t.to(torch.float64) if t.is_floating_point() else t for t in draw.inputs]
        fresh = lambda: [t.detach().clone() for t in wide()]
        leaves = [t for t, wanted in zip(draw.inputs, draw.differentiable) if wanted]
        self.v = [draw.values(tuple(t.shape), NAMES[t.dtype], -2, 2, special=False) for t in leaves] if self.order > 1 else []
        v = [t.double() for t in self.v]
        weights = {}

        def draw_weights(outputs, dtypes):
            weights["w"] = [draw.values(tuple(t.shape), dtype, -2, 2, special=False) for t, dtype in zip(outputs, dtypes)]
            return [t.double() for t in weights["w"]]

        draw.weights = draw_weights
        try:
            exact = compute(draw, draw.function, fresh(), self.order, None, v)
        except (RuntimeError, IndexError, ValueError) as error:
            self.refused = str(error).splitlines()[0]
            return
        self.sources, self.w = exact[3], weights.get("w", [])
        if not self.sources:
            self.order, self.v = 0, []
        like = [*leaves, *self.w]
        zero = lambda t, i: torch.zeros(like[i].shape, dtype=torch.float64) if t is None else t
        exact = [[t.detach() for t in exact[0]]] + [[zero(t, i).detach() for i, t in enumerate(part)] for part in exact[1:3]]
        spread = [[torch.zeros(t.shape, dtype=torch.float64) for t in part] for part in exact]
        dtype = draw.out_dtype if draw.out_dtype in FLOATS else draw.dtype
        exactly = draw.op.perturb == "none" and not self.order
        if dtype in FLOATS and not exactly and any(t.dtype == torch.float64 for part in exact for t in part):
            change, smallest = CHANGE.get(dtype, ROUNDOFF[dtype]), self.smallest(dtype)
            generator = torch.Generator().manual_seed(draw.id)
            for _ in range(samples):
                for function in [draw.function] + ([draw.steps] if draw.steps else []):
                    self.sample(function, fresh(), v, Perturb(dtype, change, smallest, generator), exact, spread, zero)
            if dtype in CHANGE:
                spread = [[t * (ROUNDOFF[dtype] / change) for t in part] for part in spread]
        names = ("y", "g", "h")
        self.y, self.g, self.h = (
            [self.bounded(name, i, t, s) for i, (t, s) in enumerate(zip(part, parts))] for name, part, parts in zip(names, exact, spread)
        )

    def smallest(self, dtype):
        return torch.finfo(TORCH[dtype]).smallest_normal if self.draw.op.flushes else SMALLEST[dtype]

    def sample(self, function, inputs, v, perturb, exact, spread, zero):
        what = self.draw.op.perturb
        if what == "all":
            inputs = [perturb.changed(t) if t.is_floating_point() else t for t in inputs]
        w, v = [perturb.changed(t.double()) for t in self.w], [perturb.changed(t) for t in v]
        with contextlib.nullcontext() if what == "none" else perturb:
            changed = compute(self.draw, function, inputs, self.order, w, v)
        for name, part, values, largest in zip("ygh", changed, exact, spread):
            for i, t in enumerate(values):
                if t.dtype != torch.float64:
                    continue
                other = zero(part[i], i).detach()
                same = (other == t) | (torch.isnan(other) & torch.isnan(t))
                # A gradient that is infinite, or that a small change makes so or NaN, may be anything: it may have overflowed on the
                # way. An output may not.
                limit = 0.0 if name == "y" else math.inf
                same &= torch.isfinite(t) | (limit == 0)
                difference = torch.where(same, 0.0, torch.nan_to_num((other - t).abs(), nan=limit, posinf=limit))
                torch.maximum(largest[i], difference, out=largest[i])

    def of(self, name, i):
        """The gradient "g" of input i, or the second one "h"; nothing where there is none."""
        leaves = [k for k, wanted in enumerate(self.draw.differentiable) if wanted]
        part = getattr(self, name)
        return [part[leaves.index(i)]] if part and i in leaves else []

    def stored(self):
        """The results that a file of draws has."""
        return [result for part in (self.y, self.g, self.h) for result in part if result.compared]

    def skip(self):
        """Brim may give anything, or refuse."""
        self.free, self.refused, self.order, self.sources, self.w, self.v = True, None, 0, [], [], []
        self.y = self.g = self.h = []

    def dtype_of(self, name, i):
        if name == "y":
            return self.draw.dtype_of_output(i)
        leaves = [t for t, wanted in zip(self.draw.inputs, self.draw.differentiable) if wanted]
        return NAMES[[*leaves, *self.w][i].dtype]

    def bounded(self, name, i, values, spread):
        dtype = self.dtype_of(name, i) if values.dtype == torch.float64 else NAMES[values.dtype]
        if values.dtype != torch.float64 or dtype not in FLOATS or (name == "y" and self.draw.op.perturb == "none"):
            return Result(dtype, values, None)
        magnitude = torch.where(torch.isfinite(values), values.abs(), 0.0)
        # What f64 is compared with is f64 itself, and adds up in another order.
        factor = FACTOR[name] * self.draw.factor * (8 if dtype == "f64" else 1)
        tolerance = factor * (spread + ROUNDOFF[dtype] * magnitude + self.smallest(dtype))
        if name != "y":  # sums of gradients near the end of the range may leave it on the way
            tolerance[magnitude > torch.finfo(TORCH[dtype]).max / 16] = math.inf
        return Result(dtype, values, tolerance)


def stored_bytes(t):
    row = torch.empty(t.numel(), dtype=t.dtype).copy_(t.detach().reshape(-1))
    return row.view(torch.uint8).numpy().tobytes()


def upwards(tolerance):
    """As bfloat16, not below what it was."""
    return (tolerance.to(torch.float32) * (1 + 2.0**-7) + 2.0**-130).to(torch.bfloat16)


def finite_share(result):
    """The share of a result's elements that may not be anything, once stored; 1 if it has none."""
    if result.tolerance is None or result.tolerance.numel() == 0:
        return 1.0
    return float(upwards(result.tolerance).isfinite().double().mean())


def describe(draw, expectation, number):
    """A draw as draw.h reads it: an object for JSON, and bytes."""
    inputs = [[NAMES[t.dtype], list(t.shape)] + ([layout] if layout else []) for t, layout in zip(draw.inputs, draw.layouts)]
    text = {"id": number, "op": draw.op.name, "attrs": draw.attrs, "in": inputs}
    data = [stored_bytes(t) for t in draw.inputs]
    if draw.reads_host:
        text["reads_host"] = True
    if expectation.refused is not None or expectation.free:
        return {**text, "free" if expectation.free else "refused": True}, b"".join(data)
    if expectation.order:
        text["order"] = expectation.order
        text["leaves"] = [i for i, wanted in enumerate(draw.differentiable) if wanted]
        text["sources"] = expectation.sources
    data += [stored_bytes(t) for t in expectation.w + expectation.v]

    def compared(result):
        if not result.compared:
            return None
        values = result.values
        if values.is_floating_point():
            values = values.to(torch.float64 if result.dtype == "f64" else torch.float32)
        data.append(stored_bytes(values))
        if result.tolerance is not None:
            data.append(stored_bytes(upwards(result.tolerance)))
        return result.tolerance is not None

    text["y"] = [[result.dtype, list(result.values.shape), compared(result)] for result in expectation.y]
    for name in "gh":
        if getattr(expectation, name):
            text[name] = [compared(result) for result in getattr(expectation, name)]
    return text, b"".join(data)
