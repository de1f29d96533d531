"""Reductions, cumulative sums, softmax, order along an axis."""

import math

import torch

from drawing import ALL, FLOATS, NUMBERS, op


# Up to 128 numbers of f32 are added one by one before the sum goes on in f64, and equal ones are all rounded alike.
SUMS = 8


def _all_axes(x, dim):
    return tuple(range(x.dim())) if dim is None else tuple(dim)


def _reduction(name, function, dtypes=FLOATS, low=None, high=None, attrs=lambda d: {}, steps=None, **options):
    @op(name, dtypes=dtypes, **options)
    def draw(d):
        shape = d.shape()
        dim = d.axes(len(shape))
        keepdim = d.attr("keepdim", d.chance(0.3))
        extra = attrs(d)
        bounded = low is not None and not d.special and d.chance(0.7)
        d.input(shape, low if bounded else None, high)
        d.steps = steps and (lambda x: steps(x, _all_axes(x, dim), keepdim))
        return lambda x: function(x, _all_axes(x, dim), keepdim, **extra)


def _one_by_one(function):
    def reduce(x, dim, keepdim):
        for axis in sorted((a % x.dim() for a in dim), reverse=True):
            x = function(x, axis, keepdim)
        return x

    return reduce


def _integers(function):
    """What PyTorch sums as i64, an x without axes too."""
    return lambda x, dim, keepdim: function(x if x.is_floating_point() else x.long(), dim, keepdim)


def _product(x, axis, keepdim):
    if x.shape[axis] == 1:  # PyTorch divides
        return x.clone() if keepdim else x.squeeze(axis)
    return torch.prod(x, axis, keepdim)


_reduction("sum", _integers(lambda x, dim, keepdim: x.sum(dim, keepdim) if dim else x.clone()), ALL, specials="sums", factor=SUMS)
_reduction("mean", lambda x, dim, keepdim: x.mean(dim, keepdim) if dim else x.clone(), specials="sums", factor=SUMS)
_reduction("prod", _integers(_one_by_one(_product)), ALL, 0.5, 1.5, specials="sums")
_reduction("amax", lambda x, dim, keepdim: torch.amax(x, dim, keepdim), ALL, perturb="none")
_reduction("amin", lambda x, dim, keepdim: torch.amin(x, dim, keepdim), ALL, perturb="none")
_reduction("any", lambda x, dim, keepdim: _one_by_one(torch.any)(x.bool(), dim, keepdim), ALL, order=0, perturb="none")
_reduction("all", lambda x, dim, keepdim: _one_by_one(torch.all)(x.bool(), dim, keepdim), ALL, order=0, perturb="none")


def _logsumexp_steps(x, dim, keepdim):
    if x.numel() == 0:
        return torch.logsumexp(x, dim, keepdim)
    largest = torch.amax(x, dim, True).detach()
    y = largest + torch.log(torch.exp(x - largest).sum(dim, True))
    return y if keepdim else y.squeeze(dim)


_reduction("logsumexp", lambda x, dim, keepdim: torch.logsumexp(x, dim, keepdim), specials="sums", factor=SUMS, steps=_logsumexp_steps)


def _correction(d):
    if d.dtype == "f64":  # PyTorch's own is a recurrence over the elements, rounded at each
        d.factor *= 8
    return {"correction": d.attr("correction", d.pick([1, 1, 0, 2]))}


_reduction("var", lambda x, dim, keepdim, correction: torch.var(x, dim, correction=correction, keepdim=keepdim), attrs=_correction, specials="sums", factor=SUMS)
_reduction("stddev", lambda x, dim, keepdim, correction: torch.std(x, dim, correction=correction, keepdim=keepdim), attrs=_correction, specials="sums", factor=SUMS)


@op("norm", specials="sums", factor=SUMS)
def norm(d):
    p = d.attr("p", d.pick([2.0, 2.0, 1.0, 3.0, 0.5, 1.5]))
    shape = d.shape()
    dim, keepdim = d.axes(len(shape)), d.attr("keepdim", d.chance(0.3))
    d.input(shape)
    return lambda x: torch.linalg.vector_norm(x, p, _all_axes(x, dim), keepdim)


@op("norm", perturb="none", variant="inf")
def norm_inf(d):
    d.attr("p", math.inf)
    shape = d.shape(min_size=1)
    dim, keepdim = d.axes(len(shape)), d.attr("keepdim", d.chance(0.3))
    d.input(shape)
    return lambda x: torch.amax(torch.abs(x), _all_axes(x, dim), keepdim)


def _extreme(name, function):
    @op(name, dtypes=ALL, perturb="none")
    def draw(d):
        shape = d.shape(low=1)
        dim, keepdim = d.axis(len(shape)), d.attr("keepdim", d.chance(0.3))
        d.input(shape)

        def reference(x):
            index = _first(function, x, dim)
            values = torch.gather(x, dim, index)
            return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))

        return reference

    @op(name + "_all", dtypes=ALL, perturb="none")
    def draw_all(d):
        d.input(d.shape())
        return getattr(torch, "a" + name)

    @op("arg" + name, dtypes=ALL, order=0, perturb="none")
    def draw_index(d):
        whole = d.chance(0.3)
        shape = d.shape(low=0 if whole else 1)
        dim = d.attr("dim", None) if whole else d.axis(len(shape))
        keepdim = not whole and d.attr("keepdim", d.chance(0.3))
        d.input(shape)
        return lambda x: _first(function, x.reshape(-1), 0).reshape(()) if whole else (lambda i: i if keepdim else i.squeeze(dim))(_first(function, x, dim))


def _first(function, x, dim):
    """Where the extreme element is, the first of equal ones or the first NaN; the axis is kept."""
    with torch.no_grad():
        best = function(x, dim, True)
        hit = ((x == best) | (x != x)).to(torch.uint8)
        order = torch.arange(x.shape[dim], 0, -1).reshape([-1] + [1] * (x.dim() - 1 - dim % x.dim()))
        return torch.argmax(hit * order, dim, True)


_extreme("max", torch.amax)
_extreme("min", torch.amin)


@op("cumsum", dtypes=ALL, specials="sums", factor=SUMS)
def cumsum(d):
    shape = d.shape(low=1)
    dim = d.axis(len(shape))
    d.input(shape)
    return lambda x: torch.cumsum(x, dim)


def _softmax(name, function, steps=None):
    @op(name, specials="sums", factor=SUMS)
    def draw(d):
        shape = d.shape(low=1)
        dim = d.axis(len(shape))
        d.input(shape)
        d.steps = steps and (lambda x: steps(x, dim))
        return lambda x: function(x, dim)


def log_softmax_steps(x, dim):
    if x.numel() == 0:
        return torch.log_softmax(x, dim)
    x = x - torch.amax(x, dim, True).detach()
    return x - torch.log(torch.exp(x).sum(dim, True))


_softmax("softmax", torch.softmax)
_softmax("log_softmax", torch.log_softmax, log_softmax_steps)


@op("sort", dtypes=ALL, perturb="none")
def sort(d):
    shape = d.shape(low=1)
    dim, descending = d.axis(len(shape)), d.attr("descending", d.chance(0.5))
    d.input(shape)
    return lambda x: torch.sort(x, dim=dim, descending=descending, stable=True)


@op("argsort", dtypes=ALL, order=0, perturb="none")
def argsort(d):
    sort_of = sort(d)
    return lambda x: sort_of(x)[1]


@op("topk", dtypes=NUMBERS, perturb="none")
def topk(d):
    shape = d.shape(low=1)
    dim = d.axis(len(shape))
    k, largest = d.attr("k", d.int(0, shape[dim])), d.attr("largest", d.chance(0.5))
    d.input(shape)

    def reference(x):
        values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
        return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)

    return reference
