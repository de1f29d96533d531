"""Losses."""

import torch
import torch.nn.functional as F

from cases.layers import given
from cases.reductions import SUMS, log_softmax_steps
from drawing import op


def _reduction(d):
    return d.attr("reduction", d.pick(["none", "mean", "sum"]))


def _logits(d):
    classes = d.int(1, 9)
    shape = d.pick([[classes], [d.int(0, 6), classes], [d.int(0, 4), classes, d.int(1, 5)], [d.int(1, 3), classes, d.int(1, 3), d.int(1, 3)]])
    d.input(shape)
    return shape, classes


def _labels(d, shape, classes, ignored):
    labels = d.rng.integers(0, classes, shape[:1] * (len(shape) > 1) + shape[2:])
    labels = torch.as_tensor(labels)
    if d.chance(0.3):
        labels = torch.where(torch.as_tensor(d.rng.random(labels.shape) < 0.4), ignored, labels)
    d.add(labels.to(torch.int64 if d.chance(0.7) else torch.int32), grad=False)


def _class_weight(d, classes):
    if d.attr("weight", d.chance(0.4)):
        d.input([classes], 0.1, 2, grad=False, special=False)


@op("cross_entropy", specials="sums")
def cross_entropy(d):
    shape, classes = _logits(d)
    smoothing, reduction = d.attr("label_smoothing", d.pick([0.0, 0.0, 0.1, 1.0])), _reduction(d)
    if d.chance(0.3):
        target = torch.softmax(d.values(shape, "f64", -2, 2, special=False), 0 if len(shape) == 1 else 1)
        d.add(target.to(d.inputs[0].dtype))
        ignored = -100
    else:
        ignored = d.attr("ignore_index", d.pick([-100, 0]))
        _labels(d, shape, classes, ignored)
    _class_weight(d, classes)

    axis = 0 if len(shape) == 1 else 1

    def steps(x, target, weight=None):
        """The losses of classes, weighted, then added; PyTorch's own would take the softmax of a softmax's logarithm."""
        if x.numel() == 0:
            return reference(x, target, weight)
        share = target
        along = [classes if i == axis else 1 for i in range(x.dim())]
        weight = torch.ones(classes, dtype=x.dtype) if weight is None else weight
        if not target.is_floating_point():
            counted = (target != ignored).unsqueeze(axis)
            label = target.long().unsqueeze(axis) * counted
            share = torch.zeros_like(x).scatter(axis, label, 1.0) * counted
            count = (share * weight.reshape(along)).sum()
            share = share * (1 - smoothing) + smoothing / classes * counted
        else:
            count = x.numel() // classes
            share = share * (1 - smoothing) + smoothing / classes
        losses = -(log_softmax_steps(x, axis) * weight.reshape(along) * share).sum(axis)
        return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.sum() / count

    def reference(x, target, weight=None):
        target = target if target.is_floating_point() else target.long()
        return F.cross_entropy(x, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing)

    d.steps = steps
    return reference


@op("nll_loss", specials="sums")
def nll_loss(d):
    shape, classes = _logits(d)
    ignored, reduction = d.attr("ignore_index", d.pick([-100, 0])), _reduction(d)
    _labels(d, shape, classes, ignored)
    _class_weight(d, classes)
    return lambda x, target, weight=None: F.nll_loss(x, target.long(), weight, ignore_index=ignored, reduction=reduction)


def _regression(name, function, attribute=None, values=(), **options):
    @op(name, specials="sums", **options)
    def draw(d):
        extra = {attribute: d.attr(attribute, d.pick(values))} if attribute else {}
        reduction = _reduction(d)
        d.factor = 1 if reduction == "none" else SUMS
        shape = d.shape()
        d.input(shape)
        d.input(d.broadcast(shape))
        return lambda x, y: function(*torch.broadcast_tensors(x, y), reduction=reduction, **extra)


_regression("mse_loss", F.mse_loss)
_regression("l1_loss", F.l1_loss, perturb="inner")
_regression("smooth_l1_loss", F.smooth_l1_loss, "beta", [1.0, 0.5, 2.0], perturb="inner")
_regression("huber_loss", F.huber_loss, "delta", [1.0, 0.5, 2.0], perturb="inner")


@op("bce_with_logits", specials="sums")
def bce_with_logits(d):
    reduction, shape = _reduction(d), d.shape()
    d.factor = 1 if reduction == "none" else SUMS
    d.input(shape)
    d.input(shape, 0, 1, special=False)
    for name in ("weight", "pos_weight"):
        if d.attr(name, d.chance(0.3)):
            d.input(shape[d.int(0, len(shape)) :], 0.1, 2, grad=False, special=False)

    def reference(x, target, *rest):
        weight, pos_weight = given(d, rest, "weight", "pos_weight")
        return F.binary_cross_entropy_with_logits(x, target, weight, reduction=reduction, pos_weight=pos_weight)

    def steps(x, target, *rest):
        weight, pos_weight = given(d, rest, "weight", "pos_weight")
        positive = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
        above = -x.clamp(max=0)  # there as log(1 + e^z) = z - log s(z), for the gradient needs 1 - s(z)
        losses = (1 - target) * x + positive * torch.where(x < 0, above - torch.log(torch.sigmoid(above)), F.softplus(-x))
        losses = losses if weight is None else losses * weight
        return losses if reduction == "none" else getattr(losses, reduction)()

    d.steps = steps
    return reference
