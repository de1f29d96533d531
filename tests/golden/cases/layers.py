"""matmul, linear, conv2d, pools, normalisation, attention, embedding, dropout's exact cases."""

import numpy as np
import torch
import torch.nn.functional as F


def matmul(family):
    for name, left, right, views in (
        ("plain", (5, 7), (7, 3), {}),
        ("transposed_left", (5, 7), (7, 3), {0: "transpose"}),
        ("transposed_right", (5, 7), (7, 3), {1: "transpose"}),
        ("transposed_both", (5, 7), (7, 3), {0: "transpose", 1: "transpose"}),
        ("strided_left", (5, 7), (7, 3), {0: "slice"}),
        ("dot", (7,), (7,), {}),
        ("vector_matrix", (5,), (5, 3), {}),
        ("matrix_vector", (3, 5), (5,), {}),
        ("batched", (3, 4, 5), (3, 5, 2), {}),
        ("batched_transposed", (3, 4, 5), (3, 5, 2), {0: "transpose", 1: "transpose"}),
        ("broadcast_batch", (2, 1, 3, 5), (4, 5, 2), {}),
        ("batch_by_matrix", (2, 3, 4, 5), (5, 6), {}),
        ("matrix_by_batch", (4, 5), (3, 5, 2), {}),
        ("batch_by_vector", (2, 3, 5), (5,), {}),
        ("odd_blocks", (17, 33), (33, 19), {}),
        ("outer", (4, 1), (1, 6), {}),
        ("no_rows", (0, 4), (4, 3), {}),
        ("no_inner", (3, 0), (0, 4), {}),
        ("no_batch", (0, 3, 4), (0, 4, 2), {}),
    ):
        a, b = family.data(f"matmul/{name}/a", left), family.data(f"matmul/{name}/b", right)
        family.case("matmul", name, torch.matmul, [a, b], views=views)
    for name, shape, outputs, bias, views in (
        ("bias", (4, 7), 3, True, {}),
        ("no_bias", (4, 7), 3, False, {}),
        ("three_dims", (2, 3, 5), 4, True, {}),
        ("vector", (5,), 4, True, {}),
        ("transposed_input", (4, 7), 3, True, {0: "transpose"}),
        ("transposed_weight", (4, 7), 3, True, {1: "transpose"}),
        ("empty_batch", (0, 5), 3, True, {}),
    ):
        inputs = [family.data(f"linear/{name}/x", shape), family.data(f"linear/{name}/w", (outputs, shape[-1]))]
        if bias:
            inputs.append(family.data(f"linear/{name}/b", (outputs,)))
        family.case("linear", name, F.linear, inputs, {"bias": bias}, views)


def conv(family):
    pair = lambda v: [v, v] if isinstance(v, int) else list(v)
    for name, x, w, bias, options, views in (
        ("plain", (2, 3, 7, 6), (4, 3, 3, 3), True, {}, {}),
        ("no_bias", (2, 3, 7, 6), (4, 3, 3, 3), False, {}, {}),
        ("stride_2", (1, 2, 8, 7), (3, 2, 3, 3), True, {"stride": 2}, {}),
        ("stride_uneven", (1, 2, 8, 9), (3, 2, 3, 2), True, {"stride": [2, 3]}, {}),
        ("padding_1", (2, 2, 5, 6), (3, 2, 3, 3), True, {"padding": 1}, {}),
        ("padding_uneven", (1, 2, 5, 4), (3, 2, 3, 5), True, {"padding": [0, 2]}, {}),
        ("dilation_2", (1, 2, 9, 8), (3, 2, 3, 3), True, {"dilation": 2}, {}),
        (
            "everything",
            (2, 4, 9, 8),
            (6, 2, 3, 2),
            True,
            {"stride": [2, 1], "padding": [1, 2], "dilation": [2, 1], "groups": 2},
            {},
        ),
        ("groups_2", (1, 4, 5, 5), (6, 2, 3, 3), True, {"groups": 2}, {}),
        ("depthwise", (2, 5, 6, 5), (5, 1, 3, 3), True, {"padding": 1, "groups": 5}, {}),
        ("depthwise_multiplier", (1, 3, 5, 5), (6, 1, 3, 3), False, {"groups": 3}, {}),
        ("pointwise", (2, 5, 3, 4), (7, 5, 1, 1), True, {}, {}),
        ("pointwise_stride", (1, 3, 5, 6), (4, 3, 1, 1), False, {"stride": 2}, {}),
        ("kernel_is_image", (3, 2, 4, 5), (3, 2, 4, 5), True, {}, {}),
        ("padding_over_kernel", (1, 1, 3, 3), (2, 1, 2, 2), True, {"padding": 3}, {}),
        ("leftover_row", (1, 2, 6, 6), (2, 2, 3, 3), True, {"stride": 2}, {}),
        ("first_layer", (2, 3, 12, 12), (6, 3, 5, 5), True, {}, {}),
        ("transposed_input", (1, 2, 6, 5), (3, 2, 3, 3), True, {}, {0: "transpose"}),
        ("strided_weight", (1, 2, 6, 5), (3, 2, 3, 3), True, {}, {1: "slice"}),
        ("empty_batch", (0, 2, 6, 5), (3, 2, 3, 3), True, {}, {}),
    ):
        inputs = [family.data(f"conv2d/{name}/x", x), family.data(f"conv2d/{name}/w", w)]
        if bias:
            inputs.append(family.data(f"conv2d/{name}/b", w[:1]))
        attrs = {
            key: pair(options.get(key, default)) for key, default in (("stride", 1), ("padding", 0), ("dilation", 1))
        }
        attrs |= {"groups": options.get("groups", 1), "bias": bias}

        def function(x, w, b=None, a=attrs):
            return F.conv2d(x, w, b, a["stride"], a["padding"], a["dilation"], a["groups"])

        family.case("conv2d", name, function, inputs, attrs, views)


def pool(family):
    for name, shape, attrs, views in (
        ("kernel_2", (2, 3, 6, 8), {"kernel_size": [2, 2]}, {}),
        ("odd_image", (1, 2, 7, 5), {"kernel_size": [2, 2]}, {}),
        ("ceil_mode", (1, 2, 7, 5), {"kernel_size": [2, 2], "ceil_mode": True}, {}),
        ("overlap", (2, 2, 7, 7), {"kernel_size": [3, 3], "stride": [2, 2]}, {}),
        ("padding", (1, 2, 7, 6), {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}, {}),
        (
            "padding_ceil",
            (1, 2, 6, 6),
            {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "ceil_mode": True},
            {},
        ),
        ("uneven", (1, 2, 8, 9), {"kernel_size": [3, 2], "stride": [1, 3], "padding": [1, 0]}, {}),
        ("stride_over_kernel", (1, 2, 7, 7), {"kernel_size": [2, 2], "stride": [3, 3]}, {}),
        ("transposed", (1, 2, 6, 4), {"kernel_size": [2, 2]}, {0: "transpose"}),
        ("strided", (1, 2, 4, 6), {"kernel_size": [2, 2]}, {0: "slice"}),
        ("empty_batch", (0, 2, 4, 4), {"kernel_size": [2, 2]}, {}),
    ):
        x = family.data(f"pool/{name}", shape)
        attrs = {"stride": attrs["kernel_size"], "padding": [0, 0], "ceil_mode": False, **attrs}
        family.case(
            "max_pool2d", name, lambda t, a=attrs: F.max_pool2d(t, **a), [x], {**attrs, "dilation": [1, 1]}, views
        )
        for include in (True, False) if attrs["padding"] != [0, 0] else (True,):
            average = {**attrs, "count_include_pad": include}
            label = name if include else f"{name}_exclude_pad"
            family.case("avg_pool2d", label, lambda t, a=average: F.avg_pool2d(t, **a), [x], average, views)
    dilated = {"kernel_size": [2, 3], "stride": [1, 2], "padding": [1, 1], "dilation": [2, 2], "ceil_mode": False}
    x = family.data("pool/dilation", (1, 2, 8, 9))
    family.case("max_pool2d", "dilation", lambda t: F.max_pool2d(t, **dilated), [x], dilated)
    plain = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False}
    ties = np.array([1, 1, 0, 0, 1, 0, 0, 2, -np.inf, -np.inf, 3, 3, -np.inf, -np.inf, 3, 3], np.float32).reshape(
        1, 1, 4, 4
    )
    family.case("max_pool2d", "ties", lambda t: F.max_pool2d(t, **plain), [ties], plain)
    for name, shape, size, views in (
        ("divides", (2, 3, 6, 8), [3, 2], {}),
        ("uneven", (1, 2, 7, 5), [3, 3], {}),
        ("global", (2, 3, 5, 4), [1, 1], {}),
        ("same", (1, 2, 3, 4), [3, 4], {}),
        ("larger", (1, 2, 3, 2), [5, 4], {}),
        ("transposed", (1, 2, 6, 5), [2, 3], {0: "transpose"}),
    ):
        x = family.data(f"adaptive/{name}", shape)
        function = lambda t, s=size: F.adaptive_avg_pool2d(t, s)
        family.case("adaptive_avg_pool2d", name, function, [x], {"output_size": size}, views)


def norm(family):
    for name, shape, options, views in (
        ("images", (4, 3, 5, 3), {}, {}),
        ("rows", (7, 5), {}, {}),
        ("no_affine", (4, 3, 2, 3), {"affine": False}, {}),
        ("no_running", (4, 3, 2, 3), {"running": False}, {}),
        ("momentum", (4, 3, 2, 3), {"momentum": 0.3, "eps": 1e-2}, {}),
        ("transposed", (2, 3, 4, 5), {}, {0: "transpose"}),
    ):
        for training in (True, False):
            if options.get("running") is False and not training:
                continue
            _batch_norm(family, f"{name}_{'train' if training else 'eval'}", shape, training, views, **options)
    for name, shape, dims, weight, bias, views in (
        ("last", (3, 5, 7), 1, True, True, {}),
        ("two_dims", (3, 5, 4), 2, True, True, {}),
        ("no_affine", (3, 5), 1, False, False, {}),
        ("no_bias", (3, 5), 1, True, False, {}),
        ("long_row", (2, 133), 1, True, True, {}),
        ("transposed", (5, 6), 1, True, True, {0: "transpose"}),
        ("empty", (0, 5), 1, True, True, {}),
    ):
        key = f"layer_norm/{name}"
        inputs = [family.data(f"{key}/x", shape)]
        inputs += [family.data(f"{key}/w", shape[-dims:])] if weight else []
        inputs += [family.data(f"{key}/b", shape[-dims:])] if bias else []
        attrs = {"normalized_shape": list(shape[-dims:]), "eps": 1e-5, "weight": weight, "bias": bias}
        function = lambda x, w=None, b=None, a=attrs: F.layer_norm(x, a["normalized_shape"], w, b, a["eps"])
        family.case("layer_norm", name, function, inputs, attrs, views)


def _batch_norm(family, name, shape, training, views, affine=True, running=True, momentum=0.1, eps=1e-5):
    """Inputs: x, [weight, bias], [running_mean, running_var]; outputs: y, [new running_mean, new running_var]."""
    key, channels = f"batch_norm/{name}", (shape[1],)
    inputs = [family.data(f"{key}/x", shape)]
    if affine:
        inputs += [family.data(f"{key}/w", channels), family.data(f"{key}/b", channels)]
    grad = list(range(len(inputs)))
    if running:
        inputs += [family.data(f"{key}/mean", channels), family.data(f"{key}/var", channels, 0.5, 2.0)]

    def function(x, *rest):
        weight, bias = rest[:2] if affine else (None, None)
        mean, var = (t.clone() for t in rest[-2:]) if running else (None, None)
        y = F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)
        return (y, mean, var) if running else y

    attrs = {"training": training, "momentum": momentum, "eps": eps, "affine": affine, "running": running}
    family.case("batch_norm", name, function, inputs, attrs, views, grad=grad)


def attention(family):
    hidden_row = np.ones((5, 7), bool)
    hidden_row[2] = False
    for name, shapes, mask, options, views in (
        ("plain", ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), None, {}, {}),
        ("single", ((5, 4), (7, 4), (7, 3)), None, {}, {}),
        ("no_batch", ((2, 5, 4), (2, 7, 4), (2, 7, 4)), None, {}, {}),
        ("scale", ((2, 5, 4), (2, 7, 4), (2, 7, 4)), None, {"scale": 0.3}, {}),
        ("causal", ((1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4)), None, {"is_causal": True}, {}),
        ("causal_more_keys", ((1, 2, 5, 4), (1, 2, 9, 4), (1, 2, 9, 4)), None, {"is_causal": True}, {}),
        ("causal_more_queries", ((1, 2, 9, 4), (1, 2, 5, 4), (1, 2, 5, 4)), None, {"is_causal": True}, {}),
        ("causal_long", ((1, 1, 130, 3), (1, 1, 130, 3), (1, 1, 130, 2)), None, {"is_causal": True}, {}),
        ("shared_heads", ((2, 4, 5, 4), (2, 2, 7, 4), (2, 2, 7, 3)), None, {"enable_gqa": True}, {}),
        ("bool_mask", ((2, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)), (2, 1, 5, 7), {}, {}),
        ("mask_of_keys", ((2, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)), (2, 1, 1, 7), {}, {}),
        ("hidden_row", ((2, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)), hidden_row, {}, {}),
        ("added_mask", ((2, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)), "added", {}, {}),
        ("views", ((2, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)), None, {}, {0: "transpose", 1: "slice", 2: "transpose"}),
    ):
        key = f"attention/{name}"
        inputs = [family.data(f"{key}/{which}", shape) for which, shape in zip("qkv", shapes)]
        if isinstance(mask, tuple):
            mask = family.data(f"{key}/mask", mask) > -0.5
        elif isinstance(mask, str):
            mask = family.data(f"{key}/mask", (5, 7))
        if mask is not None:
            inputs.append(mask)
        attrs = {"is_causal": False, "enable_gqa": False, "scale": None, **options}
        function = lambda q, k, v, m=None, a=attrs: F.scaled_dot_product_attention(q, k, v, m, **a)
        family.case("scaled_dot_product_attention", name, function, inputs, attrs, views)


def embedding(family):
    table = family.data("embedding/table", (6, 4))
    for name, indices, padding in (
        ("vector", np.array([0, 5, 2, 2], np.int64), None),
        ("matrix", np.array([[1, 1, 4], [0, 1, 5]], np.int64), None),
        ("padding_idx", np.array([[2, 1, 2], [0, 2, 5]], np.int64), 2),
        ("scalar", np.array(3, np.int64), None),
        ("empty", np.zeros((0, 3), np.int64), None),
    ):
        function = lambda i, w, p=padding: F.embedding(i, w, padding_idx=p)
        family.case("embedding", name, function, [indices, table], {"padding_idx": padding})
    x = family.data("dropout/x", (3, 5))
    family.case("dropout", "eval", lambda t: F.dropout(t, 0.5, training=False), [x], {"p": 0.5, "training": False})
    family.case("dropout", "p_0", lambda t: F.dropout(t, 0.0, training=True), [x], {"p": 0.0, "training": True})
    family.case("dropout", "p_1", lambda t: F.dropout(t, 1.0, training=True), [x], {"p": 1.0, "training": True})
