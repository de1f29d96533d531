"""Products, attention, recurrence, convolution, pooling and normalisation."""

import math

import torch
import torch.nn.functional as F

from cases.reductions import SUMS
from drawing import NUMBERS, op


# Of products: partial sums may be larger than any of their terms, and Winograd's convolution has errors of the largest value.
PRODUCTS = 4


@op("matmul", specials="sums", flushes=True, factor=PRODUCTS)
def matmul(d):
    m, k, n = d.size(0), d.size(0), d.size(0)
    batch = [d.int(1, 3) for _ in range(d.pick([0, 0, 1, 2]))]
    a, b = [m, k], [k, n]
    if d.chance(0.1):
        a = [k]
    elif d.chance(0.15):
        b = [k]
    a = ([1 if d.chance(0.2) else s for s in batch] if len(a) == 2 else []) + a
    b = ([1 if d.chance(0.2) else s for s in batch][d.int(0, len(batch)) :] if len(b) == 2 else []) + b
    d.input(a), d.input(b)
    return torch.matmul


@op("bmm", specials="sums", flushes=True, factor=PRODUCTS)
def bmm(d):
    b, m, k, n = d.int(0, 3), d.size(0), d.size(0), d.size(0)
    d.input((b, m, k)), d.input((b, k, n))
    return torch.bmm


@op("outer", dtypes=NUMBERS)
def outer(d):
    d.input((d.size(0),)), d.input((d.size(0),))
    return torch.outer


@op("linear", specials="sums", flushes=True, factor=PRODUCTS)
def linear(d):
    k, n, bias = d.size(1), d.size(1), d.attr("bias", d.chance(0.7))
    d.input([d.size(0) for _ in range(d.int(0, 2))] + [k])
    d.input((n, k))
    if bias:
        d.input((n,))
    return F.linear


def attention_steps(q, k, v, mask=None, is_causal=False, scale=None, enable_gqa=False):
    """In steps; queries that see no key get zeros. Divided at the end, so that gradients take off what results are, rounded, as
    a kernel does that has no scores left."""
    group = q.shape[-3] // k.shape[-3] if enable_gqa else 1
    k, v = k.repeat_interleave(group, -3) if group > 1 else k, v.repeat_interleave(group, -3) if group > 1 else v
    scores = q @ k.transpose(-1, -2) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool)
    if is_causal:
        seen = torch.tril(seen)
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask
    some = seen.any(-1, True)
    scores = scores.masked_fill(~(seen | ~some), -math.inf)
    weights = torch.exp(scores - scores.amax(-1, True).detach())
    return torch.where(some, weights @ v / weights.sum(-1, True), 0.0)


@op("scaled_dot_product_attention", specials="", flushes=True, factor=PRODUCTS)
def scaled_dot_product_attention(d):
    queries, keys, features, values = d.size(1), d.size(1), d.size(1), d.size(1)
    rank, gqa = d.pick([2, 3, 4, 4, 5]), False
    batch = [d.int(1, 2) for _ in range(rank - 3)]
    heads = shared = [d.int(1, 3)] if rank > 2 else []
    if rank > 2 and d.chance(0.3):
        gqa, shared, heads = True, [1], [d.int(1, 4)]
    causal = d.attr("is_causal", d.chance(0.4))
    scale = d.attr("scale", d.pick([None, None, 0.5]))
    d.input([*batch, *heads, queries, features]), d.input([*batch, *shared, keys, features]), d.input([*batch, *shared, keys, values])
    if not causal and d.chance(0.5):
        shape = [1 if d.chance(0.4) else s for s in [*batch, *heads, queries, keys]][d.int(0, rank - 2) :]
        if d.chance(0.6):
            d.add(torch.as_tensor(d.rng.random(shape) < 0.7), grad=False)
        else:
            d.input(shape)
    d.steps = lambda q, k, v, mask=None: attention_steps(q, k, v, mask, causal, scale, gqa)
    if d.order > 1:  # PyTorch's own has no second gradient
        return d.steps
    return lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=gqa)


def _each_step(gates, reverse):
    steps = range(gates.shape[0])
    return reversed(steps) if reverse else steps


@op("lstm", specials="", flushes=True, factor=2 * PRODUCTS)
def lstm(d):
    steps, samples, units = d.int(1, 4), d.pick([1, 2, 3, 5, 0]), d.size(1)
    reverse = d.attr("reverse", d.chance(0.5))
    d.input((steps, samples, 4 * units)), d.input((4 * units, units))
    d.input((samples, units)), d.input((samples, units))

    def run(gates, weight, h, c):
        after = [None] * gates.shape[0]
        for t in _each_step(gates, reverse):
            i, f, g, o = (gates[t] + h @ weight.T).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            after[t] = (h, c)
        return tuple(torch.stack(states) for states in zip(*after))

    return run


@op("gru", specials="", flushes=True, factor=2 * PRODUCTS)
def gru(d):
    steps, samples, units, bias = d.int(1, 4), d.pick([1, 2, 3, 5, 0]), d.size(1), d.attr("bias", d.chance(0.7))
    reverse = d.attr("reverse", d.chance(0.5))
    d.input((steps, samples, 3 * units)), d.input((3 * units, units)), d.input((samples, units))
    if bias:
        d.input((3 * units,))

    def run(gates, weight, h, b=0):
        after = [None] * gates.shape[0]
        for t in _each_step(gates, reverse):
            (xr, xz, xn), (hr, hz, hn) = gates[t].chunk(3, 1), (h @ weight.T + b).chunk(3, 1)
            r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            after[t] = h = n + z * (h - n)
        return torch.stack(after)

    return run


def _pair(d, key, low, high):
    h = d.int(low, high)
    return d.attr(key, [h, h if d.chance(0.7) else d.int(low, high)])


@op("conv2d", factor=PRODUCTS, specials="sums", flushes=True)
def conv2d(d):
    groups = d.attr("groups", d.pick([1, 1, 1, 2, 3]))
    c, o = groups * d.pick([1, 2, 3, 4, 8]), groups * d.pick([1, 2, 3, 5, 8])
    kernel = [d.int(1, 4), d.int(1, 4)]
    stride, padding, dilation = _pair(d, "stride", 1, 3), _pair(d, "padding", 0, 2), _pair(d, "dilation", 1, 2)
    bias = d.attr("bias", d.chance(0.6))
    size = [max(1, dilation[i] * (kernel[i] - 1) + 1 - 2 * padding[i]) + d.int(0, 5) for i in (0, 1)]
    d.input([d.pick([1, 2, 2, 3, 0]), c, *size])
    d.input([o, c // groups, *kernel])
    if bias:
        d.input([o])
    return lambda x, w, b=None: F.conv2d(x, w, b, stride, padding, dilation, groups)


@op("conv1d", factor=PRODUCTS, specials="sums", flushes=True)
def conv1d(d):
    groups = d.attr("groups", d.pick([1, 1, 1, 2, 3]))
    c, o = groups * d.pick([1, 2, 3, 8]), groups * d.pick([1, 2, 3, 8])
    kernel, stride = d.int(1, 5), d.attr("stride", d.int(1, 3))
    padding, dilation = d.attr("padding", d.int(0, 2)), d.attr("dilation", d.int(1, 2))
    bias = d.attr("bias", d.chance(0.6))
    d.input([d.pick([1, 2, 3, 0]), c, max(1, dilation * (kernel - 1) + 1 - 2 * padding) + d.int(0, 9)])
    d.input([o, c // groups, kernel])
    if bias:
        d.input([o])
    return lambda x, w, b=None: F.conv1d(x, w, b, stride, padding, dilation, groups)


@op("conv_transpose2d", factor=PRODUCTS, specials="sums", flushes=True)
def conv_transpose2d(d):
    groups = d.attr("groups", d.pick([1, 1, 1, 2, 3]))
    c, o = groups * d.pick([1, 2, 3, 8]), groups * d.pick([1, 2, 3, 5])
    kernel = [d.int(1, 4), d.int(1, 4)]
    stride, dilation = _pair(d, "stride", 1, 3), _pair(d, "dilation", 1, 2)
    size = [d.int(1, 5), d.int(1, 5)]
    full = [(size[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 for i in (0, 1)]
    padding = d.attr("padding", [d.int(0, min(2, (full[i] - 1) // 2)) for i in (0, 1)])
    more = d.attr("output_padding", [d.int(0, stride[i] - 1) for i in (0, 1)])
    bias = d.attr("bias", d.chance(0.6))
    d.input([d.pick([1, 2, 2, 0]), c, *size])
    d.input([c, o // groups, *kernel])
    if bias:
        d.input([o])
    return lambda x, w, b=None: F.conv_transpose2d(x, w, b, stride, padding, more, groups, dilation)


@op("interpolate", specials="", factor=4)
def interpolate(d):
    mode = d.attr("mode", d.pick(["nearest", "bilinear"]))
    corners = d.attr("align_corners", mode == "bilinear" and d.chance(0.5))
    options = {"mode": mode, "align_corners": corners if mode == "bilinear" else None}
    size = [d.int(1, 6), d.int(1, 6)]
    if d.chance(0.5):
        options["size"] = _pair(d, "size", 1, 9)
    else:
        options["scale_factor"] = d.attr("scale_factor", d.pick([1.0, 2.0, 3.0, 1.5, 0.5, 2.25]))
        if options["scale_factor"] < 1:
            size = [2 * s for s in size]
        d.attr("size", [0, 0])
    d.input([d.pick([1, 2, 0]), d.pick([1, 2, 3]), *size])
    return lambda x: F.interpolate(x, **options)


FORMULAS = ("ij,jk->ik", "bij,bjk->bik", "bhik,bhjk->bhij", "i,j->ij", "ij->ji", "ij->", "ii->i", "ii", "ij,ij->i", "...i,...i->...",
            "...ij,...jk", "ijk,kl,l->ji", "bi,oij,bj->bo", "ij,kj->ki", "iij,jk->ik", "i->", "ij,k->ijk", "a...,b...->ab...")


@op("einsum", specials="", flushes=True, factor=2 * PRODUCTS)
def einsum(d):
    formula = d.attr("equation", d.pick(FORMULAS))
    sizes = {c: d.pick([1, 2, 3, 4, 0] if d.chance(0.1) else [1, 2, 3, 4]) for c in formula if c.isalpha()}
    rest = [d.int(1, 3) for _ in range(d.int(0, 2))]
    for part in formula.split("->")[0].split(","):
        front, dots, back = part.partition("...")
        shape = [sizes[c] for c in front] + (rest[d.int(0, len(rest)) :] if dots else []) + [sizes[c] for c in back]
        d.input(shape)
    return lambda *x: torch.einsum(formula, *x)


@op("im2col", specials="sums", perturb="none")
def im2col(d):
    kernel = _pair(d, "kernel_size", 1, 3)
    stride, padding, dilation = _pair(d, "stride", 1, 3), _pair(d, "padding", 0, 2), _pair(d, "dilation", 1, 2)
    size = [max(1, dilation[i] * (kernel[i] - 1) + 1 - 2 * padding[i]) + d.int(0, 4) for i in (0, 1)]
    d.input([d.pick([1, 2, 3]), d.int(1, 3), *size])
    return lambda x: F.unfold(x, kernel, dilation, padding, stride)


def _windows(d, dilation=1):
    """An image and windows that it has room for; PyTorch writes to memory that is not its own where one has no element."""
    kernel = _pair(d, "kernel_size", 1, 4)
    stride = d.attr("stride", kernel) if d.chance(0.5) else _pair(d, "stride", 1, 3)
    padding = d.attr("padding", [d.int(0, k // 2) for k in kernel])
    size = [max(dilation, dilation * (k - 1) + 1 - 2 * p) + d.int(0, 7) for k, p in zip(kernel, padding)]
    d.input([d.pick([1, 2, 3, 0]), d.pick([1, 2, 3, 5, 16]), *size])
    return kernel, stride, padding, d.attr("ceil_mode", d.chance(0.3))


@op("max_pool2d", perturb="none")
def max_pool2d(d):
    dilation = d.pick([1, 1, 1, 2])
    d.attr("dilation", [dilation, dilation])
    kernel, stride, padding, ceil = _windows(d, dilation)
    return lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil)


@op("avg_pool2d", specials="sums", factor=SUMS)
def avg_pool2d(d):
    kernel, stride, padding, ceil = _windows(d)
    counted = d.attr("count_include_pad", d.chance(0.5))
    return lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, counted)


@op("adaptive_avg_pool2d", specials="sums", factor=SUMS)
def adaptive_avg_pool2d(d):
    size = _pair(d, "output_size", 1, 6)
    d.input([d.pick([1, 2, 3, 0]), d.pick([1, 2, 3, 16]), d.int(1, 9), d.int(1, 9)])
    return lambda x: F.adaptive_avg_pool2d(x, size)


# --- normalisation


def _affine(d, shape, *names, dtype=None):
    for name in names:
        if d.attr(name, d.chance(0.7)):
            d.input(shape, -2, 2, dtype=dtype, special=False)


def given(d, rest, *names):
    """Those of the inputs `rest` that are there, else None."""
    rest = list(rest)
    return [rest.pop(0) if d.attrs[name] else None for name in names]


def normalised_steps(x, dims, weight=None, bias=None, eps=1e-5):
    """weight and bias broadcast. The mean's own rounding, times 1 / the deviation, is an error of results."""
    x = x - x.mean(dims, True)
    x = x * torch.rsqrt((x * x).mean(dims, True) + eps)
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def batch_norm_steps(x, weight=None, bias=None, eps=1e-5):
    along = [1, -1] + [1] * (x.dim() - 2)
    weight, bias = (t if t is None else t.reshape(along) for t in (weight, bias))
    return normalised_steps(x, [i for i in range(x.dim()) if i != 1], weight, bias, eps)


@op("batch_norm", factor=4, specials="sums")
def batch_norm(d):
    shape = list(d.shape(low=2, high=4))
    training, eps = d.attr("training", d.chance(0.7)), d.attr("eps", d.pick([1e-5, 1e-3]))
    momentum = d.attr("momentum", d.pick([0.1, 0.3]))
    others = d.pick(["f32", d.dtype]) if d.dtype in ("f16", "bf16") else d.dtype
    d.input(shape)
    _affine(d, shape[1:2], "weight", "bias", dtype=others)
    running = d.attr("running", not training or d.chance(0.5))
    if running:
        d.input(shape[1:2], -1, 1, dtype=others, grad=False, special=False)
        d.input(shape[1:2], 0.3, 2, dtype=others, grad=False, special=False)
    d.out_dtypes = [d.dtype, others, others]

    def reference(x, *rest, normalise=F.batch_norm):
        weight, bias = given(d, rest, "weight", "bias")
        if weight is None:  # PyTorch's second gradient needs one
            weight = torch.ones(x.shape[1], dtype=x.dtype)
        mean, var = (t.clone() for t in rest[-2:]) if running else (None, None)
        y = normalise(x, mean, var, weight, bias, training, momentum, eps)
        return (y, mean, var) if running else y

    def steps(x, mean, var, weight, bias, training, momentum, eps):
        F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)  # renews mean and var
        return batch_norm_steps(x, weight, bias, eps)

    if training:
        d.steps = lambda *inputs: reference(*inputs, normalise=steps)
    return reference


@op("layer_norm", factor=4, specials="sums")
def layer_norm(d):
    shape = d.shape(low=1, min_size=1 if d.chance(0.8) else 0)
    normalized = d.attr("normalized_shape", list(shape[d.int(0, len(shape) - 1) :]))
    eps = d.attr("eps", d.pick([1e-5, 1e-3]))
    d.input(shape)
    _affine(d, normalized, "weight", "bias")

    def reference(x, *rest):
        weight, bias = given(d, rest, "weight", "bias")
        if weight is None and d.order > 1:  # PyTorch's second gradient needs one
            weight = torch.ones(normalized, dtype=x.dtype)
        return F.layer_norm(x, normalized, weight, bias, eps)

    dims = list(range(len(shape) - len(normalized), len(shape)))
    d.steps = lambda x, *rest: normalised_steps(x, dims, *given(d, rest, "weight", "bias"), eps)
    return reference


@op("group_norm", factor=4, specials="sums")
def group_norm(d):
    groups = d.attr("num_groups", d.pick([1, 2, 3]))
    channels = groups * d.int(1, 4)
    eps = d.attr("eps", d.pick([1e-5, 1e-3]))
    d.input([d.int(0, 3), channels] + [d.int(1, 5) for _ in range(d.int(0, 2))])
    _affine(d, [channels], "weight", "bias")

    def steps(x, *rest):
        weight, bias = (t if t is None else t.reshape([-1] + [1] * (x.dim() - 2)) for t in given(d, rest, "weight", "bias"))
        y = normalised_steps(x.reshape(x.shape[0], groups, channels // groups, math.prod(x.shape[2:])), [2, 3], eps=eps).reshape(x.shape)
        y = y if weight is None else y * weight
        return y if bias is None else y + bias

    d.steps = steps
    return lambda x, *rest: F.group_norm(x, groups, *given(d, rest, "weight", "bias"), eps)


@op("rms_norm", factor=4, specials="sums")
def rms_norm(d):
    shape = d.shape(low=1, min_size=1)
    normalized = d.attr("normalized_shape", list(shape[d.int(0, len(shape) - 1) :]))
    eps = d.attr("eps", d.pick([1e-5, 1e-3]))
    d.input(shape)
    _affine(d, normalized, "weight")
    return lambda x, *rest: F.rms_norm(x, normalized, *given(d, rest, "weight"), eps)
