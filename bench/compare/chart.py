"""The report as an SVG bar chart: for each case PyTorch's and brim's speed or memory, and the bar of the target."""

from xml.sax.saxutils import escape

from compare.targets import MEMORY_SHARE, SPEEDUPS

WIDTH, LEFT, RIGHT = 960, 210, 250  # pixels; labels stand left and right of the bars
BAR, GAP, HEAD = 15, 16, 54
COLOURS = {"torch eager": "#c9c9c9", "torch compile": "#8f8f8f", "brim eager": "#8ab6e8", "brim compiled": "#1f66b5"}
MIB = 1 << 20


def text(x, y, words, size=12, anchor="start", colour="#222", weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
        f'font-weight="{weight}">{escape(words)}</text>'
    )


def duration(us):
    return f"{us:.1f} µs" if us < 1000 else f"{us / 1000:.1f} ms"


def time_groups(report):
    """[(case, [(way, speed against PyTorch's best, label)], target)]"""
    groups = []
    for result in report.get("time", []):
        us = {key: value["median"] for key, value in result["us_per_step"].items()}
        best = us[result["torch_best"]]
        ways = {"torch eager": result["torch_eager_best"], "torch compile": result.get("torch_compile_best")}
        ways |= {"brim eager": "brim eager", "brim compiled": "brim compiled"}
        bars = []
        for way, key in ways.items():
            if key in us:
                variant = key.removeprefix(way).strip()
                label = f"{best / us[key]:.2f}x  ({duration(us[key])}{', ' + variant if variant else ''})"
                bars.append((way, best / us[key], label))
        groups.append((result["case"], bars, SPEEDUPS.get(result["case"])))
    return groups


def memory_groups(report):
    """The same for the peak memory, as shares of PyTorch's least."""
    groups = []
    for result in report.get("memory", []):
        peaks = {way: value for way, value in result["peak_rss"].items() if value}
        least = min(value for way, value in peaks.items() if way.startswith("torch"))
        bars = [(way, peaks[way] / least, f"{peaks[way] / MIB:.0f} MiB") for way in COLOURS if way in peaks]
        groups.append((result["case"], bars, MEMORY_SHARE))
    return groups


def section(title, groups, top, unit, colours):
    """-> (SVG elements, y of their end). All groups share one linear scale."""
    largest = max(max(value for _, value, _ in bars) for _, bars, _ in groups)
    largest = max([largest, *(target for _, _, target in groups if target)])
    scale = (WIDTH - LEFT - RIGHT) / largest
    parts = [text(10, top + 16, title, size=14, weight="bold")]
    y = top + 32
    for case, bars, target in groups:
        height = BAR * len(bars)
        parts.append(text(LEFT - 10, y + height / 2 + 4, case, anchor="end"))
        for i, (way, value, label) in enumerate(bars):
            length = max(1.0, value * scale)
            parts.append(
                f'<rect x="{LEFT}" y="{y + i * BAR:.1f}" width="{length:.1f}" height="{BAR - 2}" '
                f'fill="{colours[way]}"><title>{escape(f"{case}, {way}: {label}")}</title></rect>'
            )
            # Beyond the mark of the target, where the label would lie across it.
            x = LEFT + length + 6
            if target and x - 8 <= LEFT + target * scale <= x + 150:
                x = LEFT + target * scale + 8
            parts.append(text(x, y + i * BAR + BAR - 4, label, size=11))
        if target:
            x = LEFT + target * scale
            parts.append(
                f'<line x1="{x:.1f}" y1="{y - 3:.1f}" x2="{x:.1f}" y2="{y + height + 1:.1f}" '
                'stroke="#c0392b" stroke-width="2"/>'
            )
            parts.append(text(x, y + height + 11, f"target {target:g}{unit}", 10, "middle", "#c0392b"))
        y += height + GAP
    return parts, y


def page(head, colours, sections):
    """The chart's text. colours: {way: its colour}; sections: [(title, [(case, [(way, value, label)], target or None)], unit)]"""
    parts, y = [], HEAD
    for title, groups, unit in sections:
        if groups:
            made, y = section(title, groups, y, unit, colours)
            parts += made
            y += 10
    legend, x = [], LEFT
    for way, colour in colours.items():
        legend.append(f'<rect x="{x}" y="30" width="12" height="12" fill="{colour}"/>')
        legend.append(text(x + 17, 40, way))
        x += 130
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" '
            f'viewBox="0 0 {WIDTH} {y:.0f}" font-family="Helvetica, Arial, sans-serif">',
            f'<rect width="{WIDTH}" height="{y:.0f}" fill="white"/>',
            text(10, 20, head, size=13),
            *legend,
            *parts,
            "</svg>",
            "",
        ]
    )


def svg(report):
    """The chart's text."""
    head = f"brim and PyTorch {report['torch']} (CPU), {report['threads']} threads, {report['cpu']}"
    speed = "Speed against PyTorch's best of eager and torch.compile (longer is faster)"
    memory = "Peak resident memory in training, against PyTorch's least (shorter is better)"
    return page(head, COLOURS, [(speed, time_groups(report), "x"), (memory, memory_groups(report), "")])
