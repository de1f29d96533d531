"""Which cases a sweep runs. Needs no PyTorch."""

HALVES = ("bf16", "f16")
# Where 16-bit floats are run unless --dtypes chooses: what networks in mixed precision do between products.
HALF_FAMILIES = ("unary", "binary", "compare", "reduction", "norm")


def dtypes_of(op, layout, options):
    """By default an op's usual dtype everywhere, and the others in its usual layout."""
    if options.dtypes:
        return [dtype for dtype in op["dtypes"] if dtype in options.dtypes]
    if layout != op["layouts"][0]:
        return op["dtypes"][:1]
    return [dtype for dtype in op["dtypes"] if dtype not in HALVES or op["family"] in HALF_FAMILIES]


def plan(ops, options):
    """The cases as brim is asked for them."""
    return [
        {"op": op["op"], "family": op["family"], "layout": layout, "dtype": dtype, "elements": size, "threads": threads}
        for threads in options.threads
        for op in ops
        if not options.ops or op["op"] in options.ops
        for layout in op["layouts"]
        if not options.layouts or layout in options.layouts
        for dtype in dtypes_of(op, layout, options)
        for size in options.sizes
    ]
