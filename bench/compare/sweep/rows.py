"""Reductions, running sums, softmax and normalisation in PyTorch. bench/command/sweep/rows.cpp is brim's side."""

import torch
import torch.nn.functional as F

from compare.sweep.operands import forward, leaf, operand, training, with_training

REDUCTIONS = {  # axis None: over everything
    "sum": lambda x, axis: x.sum(axis),
    "mean": lambda x, axis: x.mean(axis),
    "prod": lambda x, axis: x.prod() if axis is None else x.prod(axis),
    "amax": lambda x, axis: x.amax(() if axis is None else axis),
    "amin": lambda x, axis: x.amin(() if axis is None else axis),
    "argmax": lambda x, axis: x.argmax(axis),
    "argmin": lambda x, axis: x.argmin(axis),
    "var": lambda x, axis: x.var(axis),
    "std": lambda x, axis: x.std(axis),
    "norm": lambda x, axis: torch.linalg.vector_norm(x, 2, axis),
    "norm-1": lambda x, axis: torch.linalg.vector_norm(x, 1, axis),
    "logsumexp": lambda x, axis: torch.logsumexp(x, 0 if axis is None else axis),
    "any": lambda x, axis: x.any() if axis is None else x.any(axis),
    "all": lambda x, axis: x.all() if axis is None else x.all(axis),
}
KINDS = {"prod": "near_one", "all": "positive"}
TRAINS = ("sum", "mean", "amax", "var", "norm", "logsumexp")


def axis_of(layout):
    return None if layout == "all" else 0 if layout in ("columns", "dense") else 1


def reduction(name):
    function = REDUCTIONS[name]

    def make(case):
        axis = axis_of(case.layout)
        return forward(lambda x: function(x, axis), operand(case, KINDS.get(name, "normal")))

    return make


def reduction_training(name):
    function = REDUCTIONS[name]

    def make(case):
        axis = axis_of(case.layout)
        return training(lambda x: function(x, axis), operand(case, KINDS.get(name, "normal")).requires_grad_())

    return make


def along(function):
    """An op of a tensor and an axis."""

    def make(case):
        axis = axis_of(case.layout)
        return forward(lambda x: function(x, axis), operand(case))

    return make


def softmax(function):
    def make(case, run):
        axis = axis_of(case.layout)
        return run(lambda x: function(x, axis), operand(case).requires_grad_())

    return make


def layer_norm(case, run):
    x = operand(case).requires_grad_()
    width = x.shape[1:]
    return run(lambda x, w, b: F.layer_norm(x, width, w, b), x, leaf(width, case.dtype), leaf(width, case.dtype))


def rms_norm(case, run):
    x = operand(case).requires_grad_()
    width = x.shape[1:]
    return run(lambda x, w: F.rms_norm(x, width, w, 1e-5), x, leaf(width, case.dtype))


def group_norm(case, run):
    x = operand(case).requires_grad_()
    channels = (x.shape[1],)
    return run(lambda x, w, b: F.group_norm(x, 8, w, b), x, leaf(channels, case.dtype), leaf(channels, case.dtype))


def batch_norm(by_batch):
    """Weights and running statistics are f32, beside activations of 16 bits too."""

    def make(case, run):
        x = operand(case).requires_grad_()
        channels = (x.shape[1],)
        return run(
            lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, by_batch),
            x,
            leaf(channels, torch.float32),
            leaf(channels, torch.float32),
            torch.zeros(channels),
            torch.ones(channels),
        )

    return make


def dropout(case, run):
    return run(lambda x: F.dropout(x, 0.5), operand(case).requires_grad_())


def row_ops():
    return {
        **{name: reduction(name) for name in REDUCTIONS},
        **{f"{name}-train": reduction_training(name) for name in TRAINS},
        "max": along(torch.max),
        "cumsum": along(torch.cumsum),
        **with_training("softmax", softmax(torch.softmax)),
        **with_training("log_softmax", softmax(torch.log_softmax)),
        **with_training("layer_norm", layer_norm),
        **with_training("rms_norm", rms_norm),
        **with_training("group_norm", group_norm),
        **with_training("batch_norm", batch_norm(True)),
        "batch_norm-eval": with_training("", batch_norm(False))[""],
        **with_training("dropout", dropout),
    }
