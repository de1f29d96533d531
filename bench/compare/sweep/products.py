"""Products, convolution, attention, recurrent layers and pooling in PyTorch. bench/command/sweep/products.cpp is brim's
side."""

import torch
import torch.nn.functional as F

from compare.sweep.operands import channels_for, forward, image_shape, in_format, leaf, operand, root, values
from compare.sweep.operands import operand_shape, with_training

# kernel, stride, padding, channels of the input (0: as many as out), groups (-1: one a channel)
CONVOLUTIONS = {
    "conv-3x3": (3, 1, 1, 0, 1),
    "conv-3x3-s2": (3, 2, 1, 0, 1),
    "conv-1x1": (1, 1, 0, 0, 1),
    "conv-5x5": (5, 1, 2, 0, 1),
    "conv-7x7-s2": (7, 2, 3, 3, 1),
    "conv-depthwise": (3, 1, 1, 0, -1),
    "conv-grouped": (3, 1, 1, 0, 4),
}
POOLS = {
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "max_pool-3x3-s2": lambda x: F.max_pool2d(x, 3, 2, 1),
    "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, 1),
    "upsample-nearest": lambda x: F.interpolate(x, scale_factor=2),
    "upsample-bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
}


def matmul(case, run):
    n, side = case.elements, root(case.elements)

    def random(*shape):
        return leaf(shape, case.dtype)

    def rows(width):
        return max(1, n // width)

    operands = {
        "square": lambda: (random(side, side), random(side, side)),
        "transposed": lambda: (random(side, side), random(side, side)),
        "both-transposed": lambda: (random(side, side), random(side, side)),
        "thin": lambda: (random(rows(16), 256), random(256, 16)),
        "inner": lambda: (random(16, rows(16)), random(rows(16), 16)),
        "vector": lambda: (random(rows(256), 256), random(256)),
        "batched": lambda: (random(rows(1024), 32, 32), random(rows(1024), 32, 32)),
    }[case.layout]()
    if case.layout == "transposed":
        return run(lambda a, b: a @ b.t(), *operands)
    if case.layout == "both-transposed":
        return run(lambda a, b: a.t() @ b.t(), *operands)
    return run(torch.matmul, *operands)


def linear(case, run):
    inner, out = (128, 10) if case.layout == "narrow" else (256, 256)
    rows = max(1, case.elements // out)
    return run(F.linear, leaf((rows, inner), case.dtype), leaf((out, inner), case.dtype), leaf((out,), case.dtype))


def outer(case):
    rows, columns = operand_shape("transposed", case.elements)
    return forward(torch.outer, values((rows,), case.dtype), values((columns,), case.dtype))


def einsum(case):
    shape = (max(1, case.elements // 1024), 32, 32)
    return forward(
        lambda a, b: torch.einsum(case.layout, a, b), values(shape, case.dtype), values(shape, case.dtype)
    )


def image_for(case, channels, stride):
    """An image of `channels` that becomes one of about case.elements by a convolution of that stride."""
    samples, usual, height, width = image_shape(case.elements, channels_for(case.elements))
    shape = (samples, channels or usual, height * stride, width * stride)
    return in_format(values(shape, case.dtype), case.layout)


def convolution(kernel, stride, padding, channels, groups):
    def make(case, run):
        out = channels_for(case.elements)
        # The gradient of pictures nobody asks for.
        x = image_for(case, channels, stride).requires_grad_(channels == 0)
        parts = out if groups < 0 else groups
        shape = (out, x.shape[1] // parts, kernel, kernel)
        w = in_format(values(shape, case.dtype), case.layout).requires_grad_()
        return run(lambda x, w, b: F.conv2d(x, w, b, stride, padding, 1, parts), x, w, leaf((out,), case.dtype))

    return make


def conv_transpose(case):
    x = image_for(case, 0, 1)
    w = values((x.shape[1], x.shape[1] // 4, 2, 2), case.dtype)
    return forward(lambda x, w: F.conv_transpose2d(x, w, stride=2), x, w)


def conv1d(case):
    samples = max(1, case.elements // (16 * 256))
    return forward(
        lambda x, w: F.conv1d(x, w, padding=1), values((samples, 16, 256), case.dtype), values((16, 16, 3), case.dtype)
    )


def attention(causal):
    def make(case, run):
        heads, features = 8, 64
        every = max(1, case.elements // (heads * features))
        tokens = min(128, every)
        shape = (every // tokens, heads, tokens, features)
        return run(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
            *(leaf(shape, case.dtype) for _ in range(3)),
        )

    return make


def recurrent(kind):
    def make(case):
        width, steps = 64, 16
        layer = kind(width, width)
        samples = max(1, case.elements // (steps * width))
        return forward(lambda x: layer(x)[0], values((steps, samples, width), case.dtype))

    return make


def pool(function):
    return lambda case, run: run(function, image_for(case, 0, 1).requires_grad_())


def product_ops():
    result = {
        **with_training("matmul", matmul),
        **with_training("linear", linear),
        "outer": outer,
        "einsum": einsum,
        "conv_transpose": conv_transpose,
        "conv1d": conv1d,
        "im2col": lambda case: forward(lambda x: F.unfold(x, 3, padding=1), operand(case)),
        **with_training("attention", attention(False)),
        **with_training("attention-causal", attention(True)),
        "lstm": recurrent(torch.nn.LSTM),
        "gru": recurrent(torch.nn.GRU),
    }
    for name, options in CONVOLUTIONS.items():
        result.update(with_training(name, convolution(*options)))
    for name, function in POOLS.items():
        result.update(with_training(name, pool(function)))
    return result
