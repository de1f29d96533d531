"""The report as an SVG bar chart: for each model and batch the speed of each side against the fastest of the others, and
start-up, memory and sizes."""

from compare import chart
from compare.deploy import targets

COLOURS = {
    "brim": "#1f66b5",
    "onnxruntime": "#c9c9c9",
    "openvino": "#a9a9a9",
    "ncnn": "#8f8f8f",
    "torch": "#e3c9a8",
}
MIB = 1 << 20


def in_order(record):
    return [(side, record["sides"][side]) for side in COLOURS if side in record["sides"]]


def time_groups(report):
    """[(case, [(side, speed against the best peer's, label)], target)]"""
    groups = []
    for record in report.get("time", []):
        peers = [m["p50_us"] for side, m in record["sides"].items() if side in targets.PEERS]
        best = min(peers or [m["p50_us"] for m in record["sides"].values()], default=None)
        bars = [
            (side, best / m["p50_us"], f"{best / m['p50_us']:.2f}x  ({chart.duration(m['p50_us'])})")
            for side, m in in_order(record)
        ]
        if bars:
            target = targets.SPEEDUPS.get(record["model"], targets.SPEEDUP) if "brim" in record["sides"] else None
            groups.append((targets.case(record), bars, target))
    return groups


def outside_groups(report, value, label, target):
    """Shares of the largest side's."""
    groups = []
    for record in report.get("outside", []):
        values = {side: value(record, m) for side, m in in_order(record)}
        if values and max(values.values()) > 0:
            scale = max(values.values())
            bars = [(side, v / scale, label(v)) for side, v in values.items()]
            groups.append((f"{record['model']} {record['precision']}", bars, target))
    return groups


def sections(report):
    """[(title, groups, unit of the target)]"""

    def mib(value):
        return f"{value / MIB:.1f} MiB"

    yield "Speed against the fastest of ONNX Runtime, OpenVINO and ncnn (longer is faster)", time_groups(report), "x"
    for title, value, label in (
        ("From the file to the first result (shorter is better)", lambda _, m: m["file_to_result_s"] * 1e6, chart.duration),
        (
            "Peak memory above that of Python alone (shorter is better)",
            lambda record, m: max(0, m["peak_rss"] - record["python_peak_rss"]),
            mib,
        ),
        ("Libraries (shorter is better)", lambda _, m: m["runtime_bytes"], mib),
    ):
        yield title, outside_groups(report, value, label, None), ""


def svg(report):
    """The chart's text."""
    head = f"Engines of brim, {report['threads']} threads, {report['isa'] or 'all instructions'}, {report['cpu']}"
    return chart.page(head, COLOURS, sections(report))
