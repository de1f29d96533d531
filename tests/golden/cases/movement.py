"""Shape ops, indexing, sorting and creation."""

import numpy as np
import torch
import torch.nn.functional as F


def shape(family):
    add = lambda op, name, size, function, attrs, views=None: family.case(
        op, name, function, [family.data(f"{op}/{name}", size)], attrs, views
    )
    for name, size, to, views in (
        ("merge", (2, 3, 5), [6, 5], {}),
        ("infer", (2, 3, 4), [3, -1], {}),
        ("flat", (2, 3, 4), [-1], {}),
        ("scalar", (1, 1), [], {}),
        ("transposed", (4, 6), [3, 8], {0: "transpose"}),
        ("strided", (3, 4), [2, 6], {0: "slice"}),
        ("empty", (0, 4), [2, 0, 3], {}),
    ):
        add("reshape", name, size, lambda x, t=to: x.reshape(t), {"shape": to}, views)
    for name, size, dims, views in (
        ("reverse", (2, 3, 5), [2, 1, 0], {}),
        ("nhwc", (2, 3, 4, 5), [0, 2, 3, 1], {}),
        ("negative", (2, 3, 5), [-1, 0, 1], {}),
        ("strided", (2, 3, 4), [1, 2, 0], {0: "slice"}),
    ):
        add("permute", name, size, lambda x, d=dims: x.permute(d), {"dims": dims}, views)
    for name, size, dims in (("matrix", (3, 5), [0, 1]), ("negative", (2, 3, 5), [-1, 0]), ("same", (3, 5), [1, 1])):
        add("transpose", name, size, lambda x, d=dims: x.transpose(*d), {"dim0": dims[0], "dim1": dims[1]})
    for name, size, to in (
        ("rows", (1, 5), [3, 5]),
        ("new_dims", (3, 1), [2, 3, 4]),
        ("keep", (3, 1), [-1, 4]),
        ("scalar", (), [2, 3]),
    ):
        add("expand", name, size, lambda x, t=to: x.expand(t), {"shape": to})
    for name, size, times in (("both", (2, 3), [2, 3]), ("new_dim", (2, 3), [2, 1, 2]), ("none", (2, 3), [0, 1])):
        add("repeat", name, size, lambda x, t=times: x.repeat(t), {"repeats": times})
    for name, size, count, dim in (("dim_0", (2, 3), 3, 0), ("dim_last", (2, 3), 2, -1), ("flat", (2, 3), 2, None)):
        attrs = {"repeats": count, "dim": dim}
        add("repeat_interleave", name, size, lambda x, c=count, d=dim: x.repeat_interleave(c, d), attrs)
    for name, size, dim in (
        ("all", (1, 3, 1, 2), None),
        ("one", (1, 3, 1), 0),
        ("negative", (1, 3, 1), -1),
        ("not_one", (1, 3), 1),
    ):
        add("squeeze", name, size, lambda x, d=dim: x.squeeze() if d is None else x.squeeze(d), {"dim": dim})
    for dim in (0, 1, -1):
        add("unsqueeze", f"dim_{dim}".replace("-", "minus_"), (2, 3), lambda x, d=dim: x.unsqueeze(d), {"dim": dim})
    for name, start, end in (("all", 0, -1), ("middle", 1, 2), ("tail", -2, -1)):
        attrs = {"start_dim": start, "end_dim": end}
        add("flatten", name, (2, 3, 4, 2), lambda x, s=start, e=end: x.flatten(s, e), attrs)
    for name, dim, start, end, step in (
        ("middle", 1, 1, 4, 1),
        ("step", 1, 0, 7, 3),
        ("negative", 0, -2, 5, 1),
        ("beyond", 1, 4, 100, 2),
        ("nothing", 0, 2, 2, 1),
    ):
        attrs = {"dim": dim, "start": start, "end": end, "step": step}
        add(
            "slice",
            name,
            (5, 7),
            lambda x, d=dim, s=start, e=end, p=step: x[(slice(None),) * d + (slice(s, e, p),)],
            attrs,
        )
    for name, dim, index in (("first", 0, 1), ("last", -1, -2)):
        add("select", name, (3, 4, 5), lambda x, d=dim, i=index: x.select(d, i), {"dim": dim, "index": index})
    for name, size, dims, views in (
        ("one", (3, 5), [1], {}),
        ("two", (2, 3, 4), [0, -1], {}),
        ("transposed", (4, 5), [0], {0: "transpose"}),
    ):
        add("flip", name, size, lambda x, d=dims: x.flip(d), {"dims": dims}, views)
    for name, size, pads, value in (
        ("last", (2, 3), [1, 2], 0.0),
        ("two_dims", (2, 3, 4), [1, 0, 2, 1], 1.5),
        ("three_dims", (2, 3, 4), [0, 1, 1, 0, 2, 2], -1.0),
        ("crop", (3, 5), [-1, 1, 0, -1], 0.0),
        ("empty", (0, 2), [1, 1], 3.0),
    ):
        attrs = {"pad": pads, "mode": "constant", "value": value}
        add("pad", name, size, lambda x, p=pads, v=value: F.pad(x, p, value=v), attrs)
    for name, size, shifts, dims in (
        ("one", (3, 5), [2], [1]),
        ("two", (3, 5), [-1, 7], [0, 1]),
        ("flat", (3, 5), [4], []),
    ):
        attrs = {"shifts": shifts, "dims": dims}
        add("roll", name, size, lambda x, s=shifts, d=dims: torch.roll(x, s, d) if d else torch.roll(x, s[0]), attrs)
    _joining(family)


def _joining(family):
    for name, sizes, dim, views in (
        ("rows", [(2, 3), (1, 3), (4, 3)], 0, {}),
        ("columns", [(2, 3), (2, 1)], -1, {}),
        ("with_empty", [(2, 3), (0, 3)], 0, {}),
        ("transposed", [(4, 3), (4, 3)], 1, {0: "transpose"}),
        ("single", [(2, 3)], 0, {}),
    ):
        inputs = [family.data(f"cat/{name}/{i}", size) for i, size in enumerate(sizes)]
        family.case("cat", name, lambda *xs, d=dim: torch.cat(xs, d), inputs, {"dim": dim}, views)
    for dim in (0, 1, -1):
        inputs = [family.data(f"stack/{dim}/{i}", (2, 3)) for i in range(3)]
        name = f"dim_{dim}".replace("-", "minus_")
        family.case("stack", name, lambda *xs, d=dim: torch.stack(xs, d), inputs, {"dim": dim})
    x = family.data("split/x", (5, 6))
    for name, sizes, dim in (("even", 2, 1), ("rest", 2, 0), ("sizes", [1, 3, 2], 1)):
        attrs = {"split_size": sizes, "dim": dim}
        family.case("split", name, lambda t, s=sizes, d=dim: torch.split(t, s, d), [x], attrs)


def index(family):
    x = family.data("index_select/x", (4, 5))
    for name, dim, indices, views in (
        ("rows", 0, [3, 0, 0], {}),
        ("columns", -1, [4, 1], {}),
        ("transposed", 0, [1, 1, 2], {0: "transpose"}),
        ("empty", 0, [], {}),
    ):
        inputs = [x, np.array(indices, np.int64)]
        family.case("index_select", name, lambda t, i, d=dim: t.index_select(d, i), inputs, {"dim": dim}, views)
    for name, size, dim, views in (
        ("rows", (2, 5), 0, {}),
        ("columns", (4, 3), 1, {}),
        ("transposed", (3, 4), -1, {0: "transpose"}),
    ):
        indices = family.integers(f"gather/{name}", size, 0, (4, 5)[dim])
        family.case("gather", name, lambda t, i, d=dim: t.gather(d, i), [x, indices], {"dim": dim}, views)
    for name, size, dim, views in (
        ("rows", (3, 5), 0, {}),
        ("columns", (4, 7), 1, {}),
        ("smaller", (2, 3), 0, {}),
        ("transposed", (4, 5), 1, {2: "transpose"}),
    ):
        indices = family.integers(f"scatter_add/{name}", size, 0, (4, 5)[dim])
        source = family.data(f"scatter_add/{name}/source", size)
        function = lambda t, i, s, d=dim: t.scatter_add(d, i, s)
        family.case("scatter_add", name, function, [x, indices, source], {"dim": dim}, views)


def sort(family):
    x = family.data("sort/x", (3, 7))
    for name, dim, descending, views in (
        ("last", -1, False, {}),
        ("last_descending", -1, True, {}),
        ("first", 0, False, {}),
        ("transposed", 1, False, {0: "transpose"}),
    ):
        function = lambda t, d=dim, r=descending: torch.sort(t, dim=d, descending=r, stable=True)
        family.case("sort", name, function, [x], {"dim": dim, "descending": descending}, views)
    equal = np.array([[2, 1, 2, 1, 2], [0, 0, 0, 0, 0]], np.float32)
    for descending in (False, True):
        function = lambda t, r=descending: torch.sort(t, dim=1, descending=r, stable=True)
        family.case("sort", f"stable_{descending}".lower(), function, [equal], {"dim": 1, "descending": descending})
    broken = np.array([[1, np.nan, -np.inf, np.inf, 0]], np.float32)
    function = lambda t: torch.sort(t, dim=1, stable=True)
    family.case("sort", "nan", function, [broken], {"dim": 1, "descending": False}, grad=False)
    family.case(
        "sort",
        "empty",
        lambda t: torch.sort(t, dim=1, stable=True),
        [np.zeros((2, 0), np.float32)],
        {"dim": 1, "descending": False},
    )
    whole = family.integers("sort/i64", (2, 6), -99, 99)
    family.case(
        "sort", "i64", lambda t: torch.sort(t, dim=1, stable=True), [whole], {"dim": 1, "descending": False}, grad=False
    )
    for name, k, dim, largest, views in (
        ("largest", 3, -1, True, {}),
        ("smallest", 2, -1, False, {}),
        ("first", 2, 0, True, {}),
        ("everything", 7, 1, True, {}),
        ("nothing", 0, 1, True, {}),
        ("transposed", 2, 1, True, {0: "transpose"}),
    ):
        function = lambda t, k=k, d=dim, g=largest: torch.topk(t, k, d, g, True)
        family.case("topk", name, function, [x], {"k": k, "dim": dim, "largest": largest}, views)


def create(family):
    add = lambda op, name, value, attrs: family.case(op, name, lambda: value, [], attrs, grad=False)
    for name, start, end, step in (
        ("whole", 0, 7, 1),
        ("step", 2, 11, 3),
        ("backwards", 5, -4, -2),
        ("fraction", 0.0, 1.0, 0.25),
        ("empty", 3, 3, 1),
    ):
        dtype = "f64" if isinstance(start, float) else "i64"
        attrs = {"start": start, "end": end, "step": step, "dtype": dtype}
        add(
            "arange",
            name,
            torch.arange(start, end, step, dtype=torch.float64 if dtype == "f64" else torch.int64),
            attrs,
        )
    for name, rows, columns in (("square", 3, 3), ("wide", 2, 4), ("tall", 4, 2)):
        add("eye", name, torch.eye(rows, columns, dtype=torch.float64), {"n": rows, "m": columns})
    add("full", "f64", torch.full((2, 3), 1.5, dtype=torch.float64), {"shape": [2, 3], "value": 1.5, "dtype": "f64"})
    add("full", "i64", torch.full((2, 3), 7), {"shape": [2, 3], "value": 7, "dtype": "i64"})
