"""What came out, as records and as text. Needs no PyTorch."""

import statistics

BAR = 0.8  # that no case may miss which has as many elements as this:
BAR_ELEMENTS = 10_000


def finish(case, record):
    """The record of a case with its medians: `ratio` above 1 where brim is faster."""
    ratios = [torch / brim for torch, brim in zip(record["torch_us"], record["us"])]
    cpu_ratios = [torch / brim for torch, brim in zip(record["torch_cpu_us"], record["cpu_us"]) if brim > 0]
    return {
        **case,
        "us": statistics.median(record["us"]),
        "torch_us": statistics.median(record["torch_us"]),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "largest": max(ratios),
        "cpu_ratio": statistics.median(cpu_ratios) if cpu_ratios else None,
        "rounds": len(ratios),
    }


def misses(results):
    """Those under the bar."""
    return [r for r in results if r["ratio"] < BAR and r["elements"] >= BAR_ELEMENTS]


def title(case):
    return f"{case['op']} {case['layout']} {case['dtype']}"


def below_table(results, below):
    """Everything under `below`, the worst first."""
    rows = sorted((r for r in results if r["ratio"] < below), key=lambda r: r["ratio"])
    lines = [
        f"{'case':<44}{'elements':>10}{'threads':>8}{'torch us':>12}{'brim us':>12}{'ratio':>8}{'range':>14}{'CPU':>7}"
    ]
    for r in rows:
        cpu = "-" if r["cpu_ratio"] is None else f"{r['cpu_ratio']:.2f}"
        lines.append(
            f"{title(r):<44}{r['elements']:>10}{r['threads']:>8}{r['torch_us']:>12.2f}{r['us']:>12.2f}"
            f"{r['ratio']:>8.2f}{r['least']:>7.2f}..{r['largest']:<5.2f}{cpu:>7}"
        )
    return "\n".join(lines) if rows else f"nothing is below {below:g}"


def summary(results):
    ratios = [r["ratio"] for r in results]
    return {
        "cases": len(ratios),
        "median": statistics.median(ratios),
        "geometric_mean": statistics.geometric_mean(ratios),
        "below_1": sum(ratio < 1 for ratio in ratios),
        "misses": len(misses(results)),
    }


def summaries(results):
    """{"all" and each family: summary}"""
    families = dict.fromkeys(r["family"] for r in results)
    parts = {family: summary([r for r in results if r["family"] == family]) for family in families}
    return {"all": summary(results), **parts}


def summary_table(parts):
    last = f"below {BAR:g} at >= {BAR_ELEMENTS:,}"
    lines = [f"{'PyTorch / brim':<16}{'cases':>8}{'median':>9}{'geo. mean':>11}{'below 1':>9}{last:>24}"]
    for name, s in parts.items():
        lines.append(
            f"{name:<16}{s['cases']:>8}{s['median']:>9.2f}{s['geometric_mean']:>11.2f}"
            f"{s['below_1']:>9}{s['misses']:>24}"
        )
    return "\n".join(lines)
