"""Draws the inputs of a case: dtypes, shapes, values, layouts. What an op is given follows from (seed, number) alone."""

import math
import zlib

import numpy as np
import torch

FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("i64", "i32", "i8", "u8")
NUMBERS = FLOATS + INTEGERS
SIGNED = FLOATS + ("i64", "i32", "i8")
ALL = NUMBERS + ("bool",)
TORCH = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in TORCH.items()}
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64)

OPS = {}


class Op:
    """How a case of an op is drawn, and how its results are compared.

    perturb: what is changed to find the tolerance (expect.py): "all", inputs too; "inner", only what is computed from them,
    for functions with jumps that a changed input would cross; "none", for those that choose or move elements: outputs are
    exact. specials: whether inputs may hold NaN, infinities, denormals: "all", the largest numbers too; "sums", not those, as
    what overflows on the way depends on the order; "" for none. factor: of the tolerance. flushes: denormal numbers may be taken for 0.
    """

    def __init__(self, draw, name, dtypes, order, perturb, specials, factor, flushes, reads_host):
        self.draw, self.name, self.dtypes, self.order, self.perturb = draw, name, dtypes, order, perturb
        self.specials, self.factor, self.flushes, self.reads_host = specials, factor, flushes, reads_host


def op(name, dtypes=FLOATS, order=2, perturb="all", specials="all", factor=1, flushes=False, reads_host=False, variant=""):
    """Registers a function that draws a case of the op `name`: it calls its Draw for attributes and inputs, and returns the
    same as a function of PyTorch's. An op may have variants."""

    def register(draw):
        key = f"{name} {variant}".strip()
        if key in OPS:
            raise ValueError(f"{key} is drawn twice")
        OPS[key] = Op(draw, name, dtypes, order, perturb, specials, factor, flushes, reads_host)
        return draw

    return register


class Draw:
    """A case: what an op is called with. limit: elements of an input; key: of OPS, else drawn."""

    def __init__(self, seed, number, limit=300, key=None):
        self.seed, self.id, self.limit = seed, number, limit
        self.rng = np.random.Generator(np.random.PCG64([seed, number, zlib.crc32((key or "").encode())]))
        self.op = OPS[key or self.pick(sorted(OPS))]
        self.dtype = self.pick([t for t in self.op.dtypes for _ in range(4 if t == "f32" else 1)])
        self.out_dtype, self.out_dtypes = self.dtype, None  # of floating outputs; the second one by one
        self.special = self.op.specials != "" and self.dtype in FLOATS and self.chance(0.15)
        floating = self.dtype in FLOATS
        self.order = min(self.op.order, self.int(0, 2)) if floating else 0
        if self.special:
            self.order = min(self.order, 1)
        self.largest = self.op.specials == "all"
        self.reads_host, self.factor = self.op.reads_host, self.op.factor
        self.inputs, self.layouts, self.differentiable, self.attrs = [], [], [], {}
        self.steps = None  # the same function in smaller steps, for the tolerance
        self.function = self.op.draw(self)

    def dtype_of_output(self, i):
        return self.out_dtypes[i] if self.out_dtypes else self.out_dtype

    # --- chance

    def chance(self, p):
        return self.rng.random() < p

    def int(self, low, high):
        """low .. high, both included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, values):
        return values[self.int(0, len(values) - 1)]

    # --- attributes

    def attr(self, key, value):
        """Notes an attribute; JSON has no numbers that are not finite."""
        self.attrs[key] = str(value) if isinstance(value, float) and not math.isfinite(value) else value
        return value

    def axis(self, rank, key="dim"):
        return self.attr(key, self.int(-rank, rank - 1))

    def axes(self, rank, key="dim"):
        """Some axes, or None for all; also noted in self.attrs."""
        if rank == 0 or self.chance(0.3):
            return self.attr(key, None)
        count = self.int(1, min(rank, 2) if self.chance(0.8) else rank)
        chosen = self.rng.permutation(rank)[:count]
        return self.attr(key, [int(a) - (rank if self.chance(0.3) else 0) for a in chosen])

    def number(self, low=-3.0, high=3.0):
        """A number with few digits; whole ones for integers."""
        value = round(float(self.rng.uniform(low, high)) * 4) / 4
        return float(round(value)) if self.dtype in INTEGERS + ("bool",) else value

    # --- shapes

    def size(self, low=0):
        return self.pick([0] if low == 0 and self.chance(0.04) else [s for s in SIZES if s >= low])

    def shape(self, low=0, high=4, min_size=0, limit=None):
        """Of rank low .. high, with at most `limit` elements."""
        limit = limit or self.limit
        if high >= 1 and low <= 1 and limit >= 300 and self.chance(0.08):  # vectors and their tails, blocks, threads
            return (self.pick([63, 65, 127, 128, 129, 255, 257, 1000, 1023, 1025, 4099]),)
        rank = self.pick([r for r in (0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6) if low <= r <= high])
        sizes = [self.size(min_size) for _ in range(rank)]
        while math.prod(sizes) > limit:
            largest = int(np.argmax(sizes))
            sizes[largest] = max(1, sizes[largest] // 2)
        return tuple(sizes)

    def broadcast(self, shape):
        """A shape that broadcasts with this one, seldom one that makes it larger."""
        if self.chance(0.5):
            return tuple(shape)
        sizes = [1 if self.chance(0.3) else s for s in shape]
        sizes = sizes[self.int(0, len(sizes)) :]
        if self.chance(0.1) and math.prod(shape) * 3 <= self.limit:
            sizes = [self.int(1, 3)] * (len(shape) - len(sizes) + 1) + sizes if len(sizes) == len(shape) else sizes
        return tuple(sizes)

    # --- values

    def values(self, shape, dtype, low=None, high=None, special=None):
        """Numbers of `dtype`: of [low, high), or of a kind that is drawn."""
        rng = self.rng
        if dtype == "bool":
            return torch.from_numpy(rng.random(shape) < rng.choice([0.1, 0.5, 0.9])) if shape else torch.tensor(bool(self.int(0, 1)))
        if dtype in INTEGERS:
            limits = torch.iinfo(TORCH[dtype])
            if low is None:
                low, high = (limits.min, limits.max) if self.chance(0.1) else (-5, 6)
            values = rng.integers(max(low, limits.min), min(high, limits.max), shape, dtype=np.int64)
            return torch.as_tensor(values).to(TORCH[dtype])
        if low is not None:
            values = rng.uniform(low, high, shape)
        else:
            kind = rng.random()
            if kind < 0.15:  # equal elements
                values = rng.integers(-2, 3, shape).astype(np.float64)
            elif kind < 0.22:  # nearly equal elements
                values = rng.choice([10.0, 100.0]) + rng.standard_normal(shape) * 0.1
            else:
                values = rng.standard_normal(shape) * rng.choice([0.01, 1, 1, 1, 1, 10])
        values = torch.as_tensor(values, dtype=torch.float64).to(TORCH[dtype])
        if self.special if special is None else special:
            flat = values.reshape(-1)
            info = torch.finfo(TORCH[dtype])
            choices = [math.nan, math.inf, -math.inf, 0.0, -0.0, info.smallest_normal]
            if not self.op.flushes:
                choices += [info.smallest_normal / 4, -info.smallest_normal / 8]
            if self.largest:
                choices += [info.max * 0.75, -info.max * 0.75]
            chosen = [choices[i] for i in rng.permutation(len(choices))[: self.int(1, 3)]]
            for i in range(flat.numel()):
                if self.chance(0.25):
                    flat[i] = self.pick(chosen)
            values = flat.reshape(values.shape)
        return values

    def input(self, shape, low=None, high=None, dtype=None, grad=True, special=None, layout=None):
        """Draws an input, and how it lies in memory. Returns its values."""
        dtype = dtype or self.dtype
        values = self.values(tuple(shape), dtype, low, high, special)
        return self.add(values, grad, layout)

    def add(self, values, grad=True, layout=None):
        """Takes these values as an input; a layout that repeats elements changes them."""
        layout = self.layout(values.shape) if layout is None else layout
        if layout.startswith("expanded"):
            last = values.dim() - 1
            for axis in {"expanded": [0], "expanded_last": [last], "expanded_all": range(last + 1)}[layout]:
                values = values.narrow(axis, 0, 1).expand([s if i == axis else -1 for i, s in enumerate(values.shape)])
            values = values.clone()
        if layout == "windows":
            rows, columns = values.shape[-2:]
            line = torch.cat([values[..., :, 0], values[..., -1, 1:]], -1)
            values = torch.stack([line[..., i : i + columns] for i in range(rows)], -2)
        self.inputs.append(values)
        self.layouts.append(layout)
        self.differentiable.append(grad and values.is_floating_point() and self.chance(0.9))
        return values

    def layout(self, shape):
        rank, count = len(shape), math.prod(shape)
        if self.chance(0.45):
            return ""
        choices = ["behind"]
        if rank:
            choices += ["strided", "flipped"]
        if rank >= 2:
            choices += ["transposed", "transposed"]
        if rank == 4:
            choices += ["nhwc", "nhwc", "chwn"]
        if count and rank:
            choices += [self.pick(["expanded", "expanded_last", "expanded_all"])]
        if count and rank >= 2:
            choices.append("windows")
        return self.pick(choices)
