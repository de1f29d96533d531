"""Views, parts, joining, repeating, padding; reading and writing at positions."""

import math

import torch
import torch.nn.functional as F

from drawing import ALL, FLOATS, INTEGERS, NUMBERS, TORCH, op


def _move(name, **options):
    return op(name, dtypes=ALL, perturb="none", **options)


def _factors(d, count):
    """Sizes whose product is `count`."""
    sizes, left = [], count
    while left > 1 and len(sizes) < 4:
        factor = d.pick([f for f in range(1, left + 1) if left % f == 0])
        sizes.append(factor)
        left //= factor
    sizes += [left] if left > 1 or not sizes and d.chance(0.5) else []
    if count == 0:
        sizes = [0, d.int(1, 3)]
    return [sizes[i] for i in d.rng.permutation(len(sizes))]


def _reshaped(name, layout):
    @_move(name)
    def draw(d):
        shape = d.shape()
        to = _factors(d, math.prod(shape))
        d.input(shape, layout=layout)
        if to and 0 not in to and d.chance(0.3):
            to[d.int(0, len(to) - 1)] = -1
        d.attr("shape", to)
        return lambda x: x.reshape(to)


_reshaped("reshape", None)
_reshaped("view", "")


@_move("flatten")
def flatten(d):
    shape = d.shape(low=1)
    start = d.attr("start_dim", d.int(0, len(shape) - 1))
    end = d.attr("end_dim", d.int(start, len(shape) - 1) - (len(shape) if d.chance(0.5) else 0))
    d.input(shape)
    return lambda x: x.flatten(start, end)


@_move("permute")
def permute(d):
    shape = d.shape()
    dims = d.attr("dims", [int(a) - (len(shape) if d.chance(0.3) else 0) for a in d.rng.permutation(len(shape))])
    d.input(shape)
    return lambda x: x.permute(dims)


@_move("transpose")
def transpose(d):
    shape = d.shape(low=1)
    a, b = d.axis(len(shape), "dim0"), d.axis(len(shape), "dim1")
    d.input(shape)
    return lambda x: x.transpose(a, b)


@_move("expand")
def expand(d):
    shape = [1 if d.chance(0.4) else s for s in d.shape(high=3)]
    d.input(shape)
    to = [d.int(0, 4) for _ in range(d.int(0, 2))] + [d.int(0, 4) if s == 1 else d.pick([s, -1]) for s in shape]
    d.attr("shape", to)
    return lambda x: x.expand(to)


@_move("squeeze")
def squeeze(d):
    shape = [1 if d.chance(0.4) else s for s in d.shape()]
    dim = d.axis(len(shape)) if shape and d.chance(0.5) else d.attr("dim", None)
    d.input(shape)
    return lambda x: x.squeeze() if dim is None else x.squeeze(dim)


@_move("unsqueeze")
def unsqueeze(d):
    shape = d.shape()
    dim = d.axis(len(shape) + 1)
    d.input(shape)
    return lambda x: x.unsqueeze(dim)


@_move("slice")
def slice_(d):
    shape = d.shape(low=1)
    dim = d.axis(len(shape))
    n = shape[dim]
    start, end = d.attr("start", d.int(-n - 1, n + 1)), d.attr("end", d.int(-n - 1, n + 2))
    step = d.attr("step", d.pick([1, 1, 2, 3, 100]))
    d.input(shape)
    return lambda x: x[(slice(None),) * (dim % len(shape)) + (slice(start, end, step),)]


@_move("select")
def select(d):
    shape = d.shape(low=1, min_size=1)
    dim = d.axis(len(shape))
    index = d.attr("index", d.int(-shape[dim], shape[dim] - 1))
    d.input(shape)
    return lambda x: x.select(dim, index)


@_move("slice_scatter")
def slice_scatter(d):
    shape = list(d.shape(low=1))
    dim = d.axis(len(shape))
    n = shape[dim]
    start, end = d.attr("start", d.int(0, n)), d.attr("end", d.int(0, n + 2))
    end = max(start, end)
    step = d.attr("step", d.pick([1, 1, 2, 3]))
    d.attr("end", end)
    d.input(shape)
    shape[dim] = len(range(start, min(end, n), step))
    d.input(shape)
    return lambda x, source: torch.slice_scatter(x, source, dim, start, end, step)


@_move("select_scatter")
def select_scatter(d):
    shape = list(d.shape(low=1, min_size=1))
    dim = d.axis(len(shape))
    index = d.attr("index", d.int(-shape[dim], shape[dim] - 1))
    d.input(shape)
    del shape[dim]
    d.input(shape)
    return lambda x, source: torch.select_scatter(x, source, dim, index)


@op("unfold", dtypes=NUMBERS, perturb="none", specials="sums")
def unfold(d):
    shape = d.shape(low=1, limit=100)
    dim = d.axis(len(shape), "dimension")
    size, step = d.attr("size", d.int(0, min(shape[dim], 5))), d.attr("step", d.pick([1, 1, 2, 3, 7]))
    d.input(shape)
    return lambda x: x.unfold(dim, size, step)


def _image(d, c, h, w):
    """A shape of rank 3 to 5 that ends like this."""
    return [d.int(1, 3) for _ in range(d.pick([0, 1, 1, 2]))] + [c, h, w]


@_move("pixel_shuffle")
def pixel_shuffle(d):
    factor = d.attr("upscale_factor", d.int(1, 3))
    d.input(_image(d, d.int(0, 3) * factor**2, d.int(1, 4), d.int(1, 4)))
    return lambda x: F.pixel_shuffle(x, factor)


@_move("pixel_unshuffle")
def pixel_unshuffle(d):
    factor = d.attr("downscale_factor", d.int(1, 3))
    d.input(_image(d, d.int(0, 3), d.int(1, 3) * factor, d.int(1, 3) * factor))
    return lambda x: F.pixel_unshuffle(x, factor)


@_move("movedim")
def movedim(d):
    shape = d.shape(low=1)
    source, destination = d.axis(len(shape), "source"), d.axis(len(shape), "destination")
    d.input(shape)
    return lambda x: x.movedim(source, destination)


@_move("narrow")
def narrow(d):
    shape = d.shape(low=1)
    dim = d.axis(len(shape))
    start = d.attr("start", d.int(0, shape[dim]))
    length = d.attr("length", d.int(0, shape[dim] - start))
    d.input(shape)
    return lambda x: x.narrow(dim, start, length)


@_move("diagonal")
def diagonal(d):
    shape = d.shape(low=2)
    a, b = (int(i) for i in d.rng.permutation(len(shape))[:2])
    offset = d.attr("offset", d.int(-5, 5))
    d.attr("dim1", a), d.attr("dim2", b - len(shape) if d.chance(0.3) else b)
    d.input(shape)
    return lambda x: x.diagonal(offset, a, b)


for _name in ("contiguous", "clone"):

    @_move(_name)
    def _same(d):
        d.input(d.shape())
        return torch.clone


@_move("split")
def split(d):
    shape = d.shape(low=1)
    dim = d.axis(len(shape))
    n = shape[dim]
    if d.chance(0.5):
        size = d.int(1, n + 1)
    else:
        cuts = sorted(d.int(0, n) for _ in range(d.int(0, 3)))
        size = [b - a for a, b in zip([0, *cuts], [*cuts, n])]
    d.attr("split_size", size)
    d.input(shape)
    return lambda x: torch.split(x, size, dim)


@_move("chunk")
def chunk(d):
    shape = d.shape(low=1)
    dim, chunks = d.axis(len(shape)), d.attr("chunks", d.int(1, 6))
    d.input(shape)
    return lambda x: torch.chunk(x, chunks, dim)


@_move("unbind")
def unbind(d):
    shape = d.shape(low=1, limit=60)
    dim = d.axis(len(shape))
    d.input(shape)
    return lambda x: torch.unbind(x, dim)


@_move("cat")
def cat(d):
    shape = list(d.shape(low=1))
    dim = d.axis(len(shape))
    for _ in range(d.int(1, 4)):
        shape[dim] = d.int(0, 5)
        d.input(shape)
    return lambda *xs: torch.cat(xs, dim)


@_move("stack")
def stack(d):
    shape = d.shape(high=3)
    dim = d.axis(len(shape) + 1)
    for _ in range(d.int(1, 4)):
        d.input(shape)
    return lambda *xs: torch.stack(xs, dim)


@_move("repeat")
def repeat(d):
    shape = d.shape(high=3, limit=40)
    repeats = d.attr("repeats", [d.int(1, 3) for _ in range(d.int(0, 1))] + [d.pick([1, 2, 3, 0]) for _ in shape])
    d.input(shape)
    return lambda x: x.repeat(repeats)


def _repeat_interleave(kind):
    @_move("repeat_interleave", reads_host=kind != "number", variant=kind)
    def draw(d):
        flat = d.chance(0.3)
        shape = d.shape(low=0 if flat else 1, limit=80)
        dim = d.attr("dim", None) if flat else d.axis(len(shape))
        d.input(shape)
        if kind == "number":
            repeats = d.attr("repeats", d.int(0, 3))
        else:
            repeats = [d.int(0, 3) for _ in range(math.prod(shape) if flat else shape[dim])]
            if kind == "list":
                d.attr("repeats", repeats)
            else:
                repeats = d.add(torch.tensor(repeats, dtype=TORCH[d.pick(["i64", "i32"])]), grad=False)
            repeats = torch.as_tensor(repeats, dtype=torch.int64)
        return lambda x, *_: torch.repeat_interleave(x, repeats, dim)


for _kind in ("number", "list", "tensor"):
    _repeat_interleave(_kind)


@_move("flip")
def flip(d):
    shape = d.shape()
    dims = d.axes(len(shape), "dims") or []
    d.attr("dims", dims)
    d.input(shape)
    return lambda x: torch.flip(x, dims)


@_move("roll")
def roll(d):
    shape = d.shape()
    dims = d.attr("dims", d.axes(len(shape), "dims") or [])
    shifts = d.attr("shifts", [d.int(-7, 7) for _ in dims or [0]])
    d.input(shape)
    return lambda x: torch.roll(x, shifts, dims or None)


for _name in ("tril", "triu"):

    @_move(_name)
    def _triangle(d, function=getattr(torch, _name)):
        diagonal = d.attr("diagonal", d.int(-4, 4))
        d.input(d.shape(low=2))
        return lambda x: function(x, diagonal)


@_move("pad")
def pad(d):
    shape = d.shape(low=1, limit=60)
    pads = d.attr("pad", [d.int(-1, 3) for _ in range(2 * d.int(0, len(shape)))])
    value = d.attr("value", abs(d.number()) if d.dtype != "bool" else 1.0)
    d.input(shape)
    return lambda x: F.pad(x, pads, value=value)


@op("pad", dtypes=NUMBERS, perturb="none", variant="mirrored")
def pad_mirrored(d):
    """What PyTorch pads in these modes has one or two axes in front."""
    mode = d.attr("mode", d.pick(["reflect", "replicate", "circular"]))
    shape = d.shape(low=2, high=4, limit=60)
    axes = d.int(1, 2) if len(shape) == 4 or len(shape) == 3 else 1
    if len(shape) == 4:
        axes = 2
    pads = d.attr("pad", [d.int(0, 3) for _ in range(2 * axes)])
    d.input(shape, *(() if d.dtype in FLOATS else (0, 100)))
    return lambda x: F.pad(x if x.is_floating_point() else x.double(), pads, mode=mode).to(x.dtype)


# --- indices


def _indices(d, shape, size, repeats=True):
    """Whole numbers below `size`, as an input; without repeats along the last axis they are permutations' beginnings."""
    if repeats:
        values = d.rng.integers(0, max(size, 1), shape)
    else:
        values = torch.argsort(torch.from_numpy(d.rng.random((*shape[:-1], size))), -1)[..., : shape[-1]]
    return d.add(torch.as_tensor(values).to(TORCH[d.pick(["i64", "i64", "i32"])]), grad=False)


@_move("index_select")
def index_select(d):
    shape = d.shape(low=1, min_size=1)
    dim = d.axis(len(shape))
    d.input(shape)
    _indices(d, (d.int(0, 6),), shape[dim])
    return lambda x, index: torch.index_select(x, dim, index)


def _part(d, shape, dim):
    """A shape with at most `shape`'s sizes but along `dim`."""
    part = [d.int(max(0, s - 2), s) if d.chance(0.4) else s for s in shape]
    part[dim] = d.int(0, 6)
    return part


@_move("gather")
def gather(d):
    shape = d.shape(low=1, min_size=1)
    dim = d.axis(len(shape))
    d.input(shape)
    _indices(d, _part(d, shape, dim), shape[dim])
    return lambda x, index: torch.gather(x, dim, index.long())


@_move("take_along")
def take_along(d):
    shape = list(d.shape(low=1, min_size=1))
    dim = d.axis(len(shape))
    other = [1 if d.chance(0.2) else s for s in shape]
    other[dim] = d.int(0, 5)
    d.input([s if i == dim % len(shape) else 1 if d.chance(0.15) else s for i, s in enumerate(shape)])
    _indices(d, other, shape[dim])
    return lambda x, index: torch.take_along_dim(x, index.long(), dim)


def _scattered(d, dim, shape, repeats):
    """Inputs x and index, and a source at least as large."""
    d.input(shape)
    part = _part(d, shape, dim)
    if repeats:
        _indices(d, part, shape[dim])
    else:
        part[dim] = min(part[dim], shape[dim])
        swapped = part[:]
        swapped[dim], swapped[-1] = swapped[-1], swapped[dim]
        values = torch.argsort(torch.from_numpy(d.rng.random((*swapped[:-1], shape[dim]))), -1)[..., : swapped[-1]]
        d.add(values.transpose(dim, -1).contiguous(), grad=False)
    return part


def _source(d, part):
    larger = d.order == 0 and d.chance(0.3)  # PyTorch has no gradient of such a source
    d.input([s + d.int(0, 2) * larger for s in part])


@_move("scatter")
def scatter(d):
    shape = d.shape(low=1, min_size=1)
    dim = d.axis(len(shape))
    part = _scattered(d, dim, shape, repeats=d.order == 0 and d.chance(0.5))
    _source(d, part)
    return lambda x, index, source: torch.scatter(x, dim, index.long(), source)


@_move("scatter_value")
def scatter_value(d):
    shape = d.shape(low=1, min_size=1)
    dim = d.axis(len(shape))
    value = d.attr("value", float(d.int(0, 1)) if d.dtype == "bool" else abs(d.number()))
    _scattered(d, dim, shape, repeats=True)
    return lambda x, index: torch.scatter(x, dim, index.long(), value)


@op("scatter_add", dtypes=NUMBERS, specials="sums")
def scatter_add(d):
    shape = d.shape(low=1, min_size=1)
    dim = d.axis(len(shape))
    part = _scattered(d, dim, shape, repeats=True)
    _source(d, part)
    return lambda x, index, source: torch.scatter_add(x, dim, index.long(), source)


@op("index_add", dtypes=NUMBERS, specials="sums")
def index_add(d):
    shape = list(d.shape(low=1, min_size=1))
    dim, alpha = d.axis(len(shape)), d.attr("alpha", 1.0 if d.chance(0.5) else abs(d.number()))
    d.input(shape)
    size = shape[dim]
    shape[dim] = d.int(0, 6)
    _indices(d, (shape[dim],), size)
    d.input(shape)
    whole = int(alpha) if d.dtype in INTEGERS else alpha
    return lambda x, index, source: torch.index_add(x, dim, index, source, alpha=whole)


@_move("masked_select", reads_host=True)
def masked_select(d):
    shape = d.shape()
    d.input(shape)
    d.input(d.broadcast(shape), dtype="bool")
    return torch.masked_select


@_move("nonzero", order=0, reads_host=True)
def nonzero(d):
    d.input(d.shape())
    return torch.nonzero


@op("unique", dtypes=ALL, order=0, perturb="none", specials="", reads_host=True)
def unique(d):
    d.input(d.shape())
    return lambda x: torch.unique(x, return_inverse=True, return_counts=True)


@op("one_hot", dtypes=("i64", "i32"), order=0, perturb="none", reads_host=True)
def one_hot(d):
    classes = d.int(1, 6)
    known = d.attr("num_classes", classes if d.chance(0.6) else -1)
    to = d.out_dtype = d.attr("dtype", d.pick(ALL))
    d.reads_host = known < 0
    d.input(d.shape(min_size=0 if known > 0 else 1, limit=60), 0, classes)
    return lambda x: F.one_hot(x.long(), known).to(torch.float64 if to in FLOATS else TORCH[to])


@op("embedding")
def embedding(d):
    rows, columns = d.int(1, 9), d.size(0)
    padding = d.attr("padding_idx", d.int(-rows, rows - 1) if d.chance(0.4) else None)
    _indices(d, d.shape(high=2, limit=40), rows)
    d.input((rows, columns))
    return lambda ids, weight: F.embedding(ids, weight, padding)
