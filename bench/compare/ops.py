"""Single ops in PyTorch. bench/command/op_cases.cpp is brim's side."""

import torch
import torch.nn.functional as F

from compare.variants import COMPILE, EAGER, compiled


def both_ways(function, step_of):
    """{variant's name: builder of the step}; step_of(the function, compiled or not) -> the step"""
    return {
        EAGER.name: lambda: step_of(function),
        COMPILE.name: lambda: step_of(compiled(function)),
    }


def repeat(function, *inputs):
    return both_ways(function, lambda chosen: lambda: chosen(*inputs))


def matmul(n):
    return repeat(lambda a, b: a @ b, torch.rand(n, n), torch.rand(n, n))


def padded_conv(x, w):
    return F.conv2d(x, w, padding=1)


def conv(channels, side):
    return repeat(padded_conv, torch.rand(4, channels, side, side), torch.rand(channels, channels, 3, 3))


def conv_train():
    x, w = torch.rand(4, 64, 56, 56, requires_grad=True), torch.rand(64, 64, 3, 3, requires_grad=True)
    g = torch.rand(4, 64, 56, 56)

    def step_of(forward):
        def step():
            x.grad = w.grad = None
            forward(x, w).backward(g)

        return step

    return both_ways(padded_conv, step_of)


HEADS, FEATURES = 8, 64


def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention(tokens):
    return repeat(causal_attention, *(torch.rand(1, HEADS, tokens, FEATURES) for _ in range(3)))


def attention_train(tokens):
    inputs = [torch.rand(1, HEADS, tokens, FEATURES, requires_grad=True) for _ in range(3)]
    g = torch.rand(1, HEADS, tokens, FEATURES)

    def step_of(forward):
        def step():
            for x in inputs:
                x.grad = None
            forward(*inputs).backward(g)

        return step

    return both_ways(causal_attention, step_of)


def recurrent(kind):
    """Layers as nn.LSTM and nn.GRU are, with all gradients, the input's too."""
    net, shape = kind(256, 256, num_layers=2), (128, 32, 256)
    x, g = torch.rand(shape, requires_grad=True), torch.rand(shape)

    def step_of(forward):
        def step():
            for leaf in (x, *net.parameters()):
                leaf.grad = None
            forward(x).backward(g)

        return step

    return both_ways(lambda x: net(x)[0], step_of)


def softmax(rows, columns):
    return repeat(lambda x: torch.softmax(x, 1), torch.rand(rows, columns))


def layer_norm(rows, columns):
    x, w, b = torch.rand(rows, columns), torch.rand(columns), torch.rand(columns)
    return repeat(lambda x, w, b: F.layer_norm(x, (columns,), w, b), x, w, b)


def chain(count):
    inputs = [torch.rand(count) for _ in range(3)]
    return repeat(lambda a, b, c: torch.sigmoid(torch.relu(a * b + c)) * a, *inputs)


def add_16_grad():
    """The tape's cost: it runs eagerly only."""
    a, b = torch.rand(16, requires_grad=True), torch.rand(16)
    return {EAGER.name: lambda: lambda: a + b}


def op_cases():
    """name -> {variant's name: builder of the step}"""
    return {
        "add-16": repeat(lambda a, b: a + b, torch.rand(16), torch.rand(16)),
        "add-16-grad": add_16_grad(),
        "relu-16": repeat(torch.relu, torch.rand(16)),
        "matmul-32": matmul(32),
        "matmul-256": matmul(256),
        "matmul-1024": matmul(1024),
        "conv-8x14x14": conv(8, 14),
        "conv-64x56x56": conv(64, 56),
        "conv-64x56x56-train": conv_train(),
        "attention-512": attention(512),
        "attention-512-train": attention_train(512),
        "attention-4096": attention(4096),
        "attention-4096-train": attention_train(4096),
        "lstm": recurrent(torch.nn.LSTM),
        "gru": recurrent(torch.nn.GRU),
        "softmax-8x100": softmax(8, 100),
        "softmax-128x1000": softmax(128, 1000),
        "layer-norm-8x64": layer_norm(8, 64),
        "layer-norm-1024x768": layer_norm(1024, 768),
        "chain-1k": chain(1 << 10),
        "chain-256k": chain(1 << 18),
        "sum-1m": repeat(lambda x: x.sum(), torch.rand(1 << 20)),
    }
