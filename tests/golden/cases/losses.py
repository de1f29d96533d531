"""cross_entropy, mse_loss, bce_with_logits."""

import numpy as np
import torch.nn.functional as F

REDUCTIONS = ("mean", "sum", "none")


def loss(family):
    _cross_entropy(family)
    for reduction in REDUCTIONS:
        _pair(family, "mse_loss", f"{reduction}", F.mse_loss, (3, 5), {"reduction": reduction})
        _pair(family, "bce_with_logits", f"{reduction}", _bce, (3, 5), {"reduction": reduction})
    _pair(family, "mse_loss", "transposed", F.mse_loss, (4, 6), {"reduction": "mean"}, {0: "transpose"})
    _pair(family, "mse_loss", "empty_sum", F.mse_loss, (0, 3), {"reduction": "sum"})
    x, y = np.array([[100, -100, 0, 50]], np.float32), np.array([[1, 0, 1, 0]], np.float32)
    family.case(
        "bce_with_logits", "extreme", lambda a, b: _bce(a, b, reduction="none"), [x, y], {"reduction": "none"}, grad=[0]
    )
    x, y = family.data("bce/x", (4, 3)), family.data("bce/y", (4, 3), 0.0, 1.0)
    weight, positive = family.data("bce/weight", (3,), 0.2, 2.0), family.data("bce/positive", (3,), 0.2, 4.0)
    for name, has_weight, has_positive in (
        ("weight", True, False),
        ("pos_weight", False, True),
        ("both_weights", True, True),
    ):
        inputs = [x, y] + ([weight] if has_weight else []) + ([positive] if has_positive else [])

        def function(a, b, *rest, w=has_weight, p=has_positive):
            return F.binary_cross_entropy_with_logits(
                a, b, weight=rest[0] if w else None, pos_weight=rest[-1] if p else None
            )

        attrs = {"reduction": "mean", "weight": has_weight, "pos_weight": has_positive}
        family.case("bce_with_logits", name, function, inputs, attrs, grad=[0])


def _bce(x, y, reduction):
    return F.binary_cross_entropy_with_logits(x, y, reduction=reduction)


def _pair(family, op, name, function, shape, attrs, views=None):
    x, y = family.data(f"{op}/{name}/x", shape), family.data(f"{op}/{name}/y", shape, 0.0, 1.0)
    grad = [0, 1] if op == "mse_loss" else [0]
    family.case(op, name, lambda a, b: function(a, b, **attrs), [x, y], attrs, views, grad=grad)


def _cross_entropy(family):
    variants = {
        "plain": {},
        "smoothing": {"label_smoothing": 0.1},
        "weights": {"weights": True},
        "ignore": {"ignore_index": 2},
        "weights_smoothing": {"weights": True, "label_smoothing": 0.2},
        "ignore_smoothing": {"ignore_index": 2, "label_smoothing": 0.2},
        "everything": {"weights": True, "label_smoothing": 0.15, "ignore_index": 1},
    }
    for variant, options in variants.items():
        for reduction in REDUCTIONS:
            _cross_entropy_case(family, f"{variant}_{reduction}", (7, 5), reduction, **options)
    _cross_entropy_case(family, "one_row", (1, 10), "mean")
    _cross_entropy_case(family, "transposed", (6, 4), "mean", views={0: "transpose"})
    _cross_entropy_case(family, "extreme", (4, 5), "mean", scale=500.0)
    _cross_entropy_case(family, "default_ignore", (4, 5), "mean", labels=np.array([1, -100, 4, -100], np.int64))
    _cross_entropy_case(family, "empty_sum", (0, 5), "sum")


def _cross_entropy_case(
    family,
    name,
    shape,
    reduction,
    weights=False,
    label_smoothing=0.0,
    ignore_index=-100,
    views=None,
    scale=1.0,
    labels=None,
):
    key = f"cross_entropy/{name}"
    logits = family.data(f"{key}/x", shape) * np.float32(scale)
    if labels is None:
        labels = family.integers(f"{key}/y", shape[:1], 0, shape[1])
    if ignore_index >= 0:
        labels[:2] = ignore_index
    inputs = [logits, labels] + ([family.data(f"{key}/w", shape[1:], 0.2, 2.0)] if weights else [])
    options = {"reduction": reduction, "label_smoothing": label_smoothing, "ignore_index": ignore_index}
    function = lambda x, y, w=None: F.cross_entropy(x, y, weight=w, **options)
    family.case("cross_entropy", name, function, inputs, {**options, "weight": weights}, views, grad=[0])
