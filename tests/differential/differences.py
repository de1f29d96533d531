"""Where brim differs from PyTorch on purpose, and why. Each entry changes what is expected, or takes a result out.

An entry is a function of a Draw and its Expectation (expect.py); its first line is the reason that people read.
"""

import math

import torch

DIFFERENCES = []


def difference(*ops):
    def register(function):
        DIFFERENCES.append((ops, function))
        return function

    return register


def apply(draw, expectation):
    for ops, function in DIFFERENCES:
        if draw.op.name in ops:
            function(draw, expectation)


@difference("group_norm")
def one_value_per_group(draw, expectation):
    """A group of one value is normalised to 0, as in layer_norm; PyTorch refuses it as if the norm were in training."""
    if expectation.refused and "more than 1 value per channel" in expectation.refused:
        expectation.skip()


@difference("conv1d", "conv2d", "conv_transpose2d")
def convolution_spreads_nan(draw, expectation):
    """Convolutions multiply padding and what strides leave out by 0, and compute tiles: NaN and infinities reach more elements
    of results and gradients than those that depend on them."""
    if not all(bool(torch.isfinite(t).all()) for t in draw.inputs):
        expectation.skip()


@difference("pixel_shuffle", "pixel_unshuffle")
def pixels_of_nothing(draw, expectation):
    """An image without elements gets the shape that others get; PyTorch gives it back as it is."""
    if draw.inputs[0].numel() == 0:
        expectation.skip()


@difference("batch_norm")
def normalised_nan(draw, expectation):
    """Outside of training the gradient at an x that is not finite is NaN, as its output is; PyTorch's does not look at x."""
    if not draw.attrs["training"]:
        for result in expectation.of("g", 0):
            result.ignore(~torch.isfinite(draw.inputs[0]))


@difference("batch_norm")
def no_channels(draw, expectation):
    """An x without channels gives an empty result; PyTorch refuses it."""
    if draw.inputs[0].shape[1] == 0 and expectation.refused:
        expectation.skip()


@difference("var", "stddev")
def variance_of_too_few(draw, expectation):
    """The variance of too few elements is NaN, its gradient, too; PyTorch's is 0 where the correction is above their number. The
    second gradients are NaN or 0 by where 0 / 0 comes in."""
    nan = torch.isnan(expectation.y[0].values)
    if bool(nan.any()):
        for result in expectation.h:
            result.compared = False
        if bool(nan.all()):
            for result in expectation.g:
                result.ignore(result.values == 0)


@difference("stddev")
def deviation_of_equal_elements(draw, expectation):
    """Equal elements have a deviation of 0; the rounding of PyTorch's mean leaves some, which it divides by."""
    x = draw.inputs[0]
    if x.dtype == torch.float64 and x.numel() > 0 and bool((expectation.y[0].values < 1e-14 * x.abs().max()).any()):
        for result in [*expectation.g, *expectation.h]:
            result.compared = False


@difference("elu")
def elu_at_zero(draw, expectation):
    """brim's second gradient at 0 is that from below, as the first one is in both; PyTorch's is that from above."""
    for result in expectation.of("h", 0):
        result.ignore(draw.inputs[0] == 0)


@difference("elu")
def elu_at_nan(draw, expectation):
    """Gradients pass elu at NaN, as they pass relu; PyTorch's are NaN where its loop is vectorised, and pass where it is not."""
    for result in expectation.of("g", 0):
        result.ignore(torch.isnan(draw.inputs[0]))


@difference("norm")
def second_gradient_at_zero(draw, expectation):
    """Where x is 0, the second gradient of norms is infinite or unknown: 0 in brim, as the first one is; NaN in PyTorch, also that of
    what flows into a norm of 0, or of nothing."""
    if draw.attrs["p"] == "inf":
        return
    for result in expectation.of("h", 0):
        result.ignore(torch.isnan(result.values) & (draw.inputs[0] == 0))
    if bool((expectation.y[0].values == 0).any()) or draw.inputs[0].numel() == 0:
        for result in expectation.h:
            result.ignore(torch.isnan(result.values))


@difference("norm")
def absolute_value_and_nan(draw, expectation):
    """The gradient of |x| is 0 at 0 and NaN, even where what flows into it is NaN; PyTorch multiplies."""
    if draw.attrs["p"] in ("inf", 1.0):
        for result in expectation.of("g", 0):
            result.ignore(torch.isnan(result.values) & ((draw.inputs[0] == 0) | torch.isnan(draw.inputs[0])))


@difference("pow_scalar")
def root_of_minus_infinity(draw, expectation):
    """Roots of minus infinity are NaN, and so are their gradients; PyTorch's are those of powers, 0 or infinite."""
    for result in [*expectation.of("g", 0), *expectation.h]:
        if result.values.shape == draw.inputs[0].shape:
            result.ignore(draw.inputs[0] == -math.inf)


@difference("pad")
def pad_of_nothing(draw, expectation):
    """Where a border below 0 cuts more than an axis has, the other one may add to it; PyTorch cuts first, and refuses. Nor does it
    mirror an x without elements."""
    if expectation.refused and ("length must be non-negative" in expectation.refused or "non-zero dimensions" in expectation.refused):
        expectation.skip()


@difference("embedding")
def embedding_of_nothing(draw, expectation):
    """PyTorch has no second gradient for no ids."""
    if expectation.refused and draw.inputs[0].numel() == 0:
        expectation.skip()


@difference("prod")
def product_that_is_not_finite(draw, expectation):
    """A gradient of prod is the product of the others; PyTorch divides by an element, and gets NaN from infinities, and few bits
    from a product that is denormal."""
    y = expectation.y[0].values.double()
    denormal = bool(((y != 0) & (y.abs() < torch.finfo(torch.float64).tiny)).any())
    for result in expectation.of("g", 0):
        result.ignore(torch.isnan(result.values) | denormal)
    for result in expectation.h:
        result.ignore(torch.isnan(result.values))


@difference("prod")
def product_in_another_order(draw, expectation):
    """Factors that underflow before they meet an infinity are 0 times that, NaN: which do is a matter of order."""
    x = draw.inputs[0]
    if x.is_floating_point():
        sizes = torch.log2(x.double().abs())
        if float(sizes[torch.isfinite(sizes)].abs().sum()) > -math.log2(torch.finfo(x.dtype).tiny):
            for result in expectation.y:
                result.ignore(torch.isinf(result.values))


@difference("cross_entropy")
def ignored_labels(draw, expectation):
    """Logits of an ignored label have gradient 0, whatever they are; PyTorch multiplies by 0, which leaves NaN. The mean of nothing
    has gradients of 0, too."""
    logits, labels = draw.inputs[:2]
    if not labels.is_floating_point():
        ignored = (labels == draw.attrs["ignore_index"]).unsqueeze(0 if logits.dim() == 1 else 1).expand(logits.shape)
        for result in expectation.of("g", 0):
            result.ignore(ignored & torch.isnan(result.values))
    if bool(torch.isnan(expectation.y[0].values).any()):
        for result in expectation.h:
            result.ignore(torch.isnan(result.values))


@difference("rdiv_scalar")
def reciprocal_overflows(draw, expectation):
    """value / x is value * (1 / x), in PyTorch, too: infinite, or NaN, where 1 / x is beyond the dtype's range, or its square is."""
    x = draw.inputs[0]
    if x.is_floating_point():
        inverse = torch.reciprocal(x.double()).abs()
        beyond = (inverse > torch.finfo(x.dtype).max) | (torch.isfinite(x) & (inverse * inverse == 0))
        for result in [*expectation.y, *expectation.g]:
            if result.values.shape == x.shape:
                result.ignore(beyond)


@difference("clamp")
def bounds_of_clamp(draw, expectation):
    """The gradient of clamp is 1 at its bounds; that of PyTorch 2.15 is 0 there."""
    x = draw.inputs[0]
    at_bound = torch.zeros(x.shape, dtype=torch.bool)
    for key in ("min", "max"):
        if draw.attrs[key] is not None:
            at_bound |= x == torch.tensor(draw.attrs[key], dtype=x.dtype)
    for result in expectation.of("g", 0):
        result.ignore(at_bound)
    for result in expectation.h:
        if result.values.shape == x.shape:
            result.ignore(at_bound)


@difference("dropout")
def dropped_nan(draw, expectation):
    """A dropped element is 0 whatever it was; PyTorch multiplies by 0, which leaves NaN."""
    for result in expectation.y:
        if draw.attrs["training"] and draw.attrs["p"] == 1:
            result.ignore(torch.isnan(result.values))


@difference("pow")
def powers_of_zero(draw, expectation):
    """At a base of 0 second gradients are limits, as the first ones are in both; PyTorch's are NaN: 0 times infinity."""
    if bool((draw.inputs[0] == 0).any()):
        for result in expectation.h:
            result.ignore(torch.isnan(result.values))


@difference("batch_norm")
def mean_of_infinity(draw, expectation):
    """Running statistics that an infinite x spoils are NaN; PyTorch's mean is infinite."""
    for result in expectation.y[1:2]:
        result.ignore(torch.isinf(result.values))


@difference("stddev")
def second_gradient_of_no_deviation(draw, expectation):
    """Where the standard deviation is 0 its gradient is 0, in both; the second gradient is 0, too, and NaN in PyTorch."""
    if bool((expectation.y[0].values == 0).any()):
        for result in expectation.h:
            result.compared = False
