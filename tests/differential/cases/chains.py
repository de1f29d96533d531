"""Ops in a row, which plans fuse."""

import torch
import torch.nn.functional as F

from cases.elementwise import gelu_steps
from cases.layers import PRODUCTS, batch_norm_steps
from cases.reductions import log_softmax_steps
from drawing import op


@op("linear_relu", specials="", flushes=True, factor=PRODUCTS)
def linear_relu(d):
    m, k, n = d.size(1), d.size(1), d.size(1)
    d.input((m, k)), d.input((n, k)), d.input((n,))
    return lambda x, w, b: torch.relu(F.linear(x, w, b))


@op("linear_gelu_linear", specials="", flushes=True, factor=PRODUCTS)
def linear_gelu_linear(d):
    m, k, h, n = d.size(1), d.size(1), d.size(1), d.size(1)
    d.input((m, k), *((-3, 3) if d.dtype == "f16" else ())), d.input((h, k)), d.input((h,)), d.input((n, h)), d.input((n,))
    d.steps = lambda x, w, b, w2, b2: F.linear(gelu_steps(F.linear(x, w, b)), w2, b2)
    return lambda x, w, b, w2, b2: F.linear(F.gelu(F.linear(x, w, b)), w2, b2)


@op("linear_cross_entropy", specials="", flushes=True, factor=PRODUCTS)
def linear_cross_entropy(d):
    m, k, n = d.size(1), d.size(1), d.int(1, 20)
    d.input((m, k))
    d.add(torch.as_tensor(d.rng.integers(0, n, (m,))), grad=False)
    d.input((n, k), -1, 1), d.input((n,))
    d.steps = lambda x, target, w, b: F.nll_loss(log_softmax_steps(F.linear(x, w, b), 1), target)
    return lambda x, target, w, b: F.cross_entropy(F.linear(x, w, b), target)


@op("conv_relu_pool", specials="", flushes=True, factor=PRODUCTS)
def conv_relu_pool(d):
    kernel, padding = d.pick([1, 3, 5]), d.attr("padding", [d.int(0, 1)] * 2)
    size = [kernel + d.int(1, 8), kernel + d.int(1, 8)]
    c, o = d.pick([1, 3, 6]), d.pick([1, 4, 6, 16])
    images = [d.int(1, 3), c, *size]
    layout = d.layout(images)
    repeats = layout.startswith("expanded") or layout == "windows"  # then rounding decides which of equal results is the largest
    d.input(images, layout="" if repeats else layout), d.input([o, c, kernel, kernel], -1, 1), d.input([o])

    def imprecise(x, w, b):  # Winograd's transforms cancel as this difference does, and choose among near results
        return F.max_pool2d(torch.relu(F.conv2d(x, 5 * w, b, padding=padding) - F.conv2d(x, 4 * w, padding=padding)), 2)

    d.steps = imprecise
    return lambda x, w, b: F.max_pool2d(torch.relu(F.conv2d(x, w, b, padding=padding)), 2)


@op("batch_norm_add_relu", specials="", flushes=True, factor=2)
def batch_norm_add_relu(d):
    shape = [d.int(2, 4), d.int(1, 6), d.int(1, 5), d.int(1, 5)]
    d.input(shape), d.input(shape), d.input(shape[1:2]), d.input(shape[1:2])
    d.steps = lambda x, z, w, b: torch.relu(batch_norm_steps(x, w, b) + z)
    return lambda x, z, w, b: torch.relu(F.batch_norm(x, None, None, w, b, True) + z)


@op("conv_batch_norm_relu", specials="", flushes=True, factor=PRODUCTS)
def conv_batch_norm_relu(d):
    stride, c, o = d.attr("stride", [d.int(1, 2)] * 2), d.int(1, 4), d.int(1, 6)
    d.input([d.int(2, 3), c, d.int(2, 6), d.int(2, 6)]), d.input([o, c, 3, 3], -1, 1), d.input([o]), d.input([o])
    d.steps = lambda x, w, g, b: torch.relu(batch_norm_steps(F.conv2d(x, w, None, stride, 1), g, b))
    return lambda x, w, g, b: torch.relu(F.batch_norm(F.conv2d(x, w, None, stride, 1), None, None, g, b, True))


@op("mul_add_tanh", specials="", flushes=True, factor=2)
def mul_add_tanh(d):
    shape = d.shape()
    d.input(shape), d.input(d.broadcast(shape)), d.input(shape)
    return lambda a, b, c: torch.tanh(a * b + c)
