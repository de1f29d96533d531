"""The report as text."""

from compare.busy import BUSY
from compare.targets import verdicts

MIB = 1 << 20


def time_header():
    columns = ("torch eager", "torch compile", "brim eager", "brim compiled", "speedup", "range", "of peak")
    widths = (13, 15, 12, 15, 9, 14, 9)
    return f"{'us per step':<28}" + "".join(f"{c:>{w}}" for c, w in zip(columns, widths))


def time_line(result):
    """Medians; the best variant of each of PyTorch's two columns. The speedup is brim's best column over PyTorch's."""
    us = result["us_per_step"]

    def cell(key, width):
        return f"{us[key]['median']:>{width}.2f}" if key in us else f"{'-':>{width}}"

    line = f"{result['case']:<28}{cell(result['torch_eager_best'], 13)}{cell(result.get('torch_compile_best'), 15)}"
    line += f"{cell('brim eager', 12)}{cell('brim compiled', 15)}"
    speedup = result.get("speedup_compiled") or result.get("speedup_eager")
    if speedup:
        line += f"{speedup['median']:>8.2f}x{speedup['min']:>7.2f}..{speedup['max']:<5.2f}"
        record = result["brim"].get("compiled") or result["brim"]["eager"]
        if "share_of_peak" in record:
            line += f"{record['flops'] / us['brim ' + record['mode']]['median'] / record['peak_gflops'] / 10:>7.1f} %"
    if result["others_share_of_cpus"] > BUSY:
        line += f"   (others used {100 * result['others_share_of_cpus']:.0f} % of the CPUs)"
    for variant, why in result["missing"].items():
        line += f"\n  {variant} did not run: {why}"
    return line


def memory_line(result):
    cells = (f"{way} {'-' if value is None else f'{value / MIB:.0f} MiB'}" for way, value in result["peak_rss"].items())
    return f"{result['case']:<28}{', '.join(cells)}"


def startup_line(result):
    cells = (f"{way} {'-' if value is None else f'{value:.3f} s'}" for way, value in result["seconds"].items())
    return f"{result['case']:<28}{'; '.join(cells)}"


def equality_line(result):
    def cell(way):
        return " ".join(f"{distance:.1e}" for distance in result[way]["worst_of_draws"])

    ways = f"eager {cell('eager')}; compiled {cell('compiled')}; PyTorch on other threads {cell('torch_itself')}"
    return f"{result['case']:<28}{result['steps']} steps: {ways}"


def verdict_table(report):
    rows = verdicts(report)
    if not rows:
        return ""
    width = max(len(row.what) for row in rows)
    lines = [f"{'target':<{width}}{'bar':>10}{'value':>10}"]
    lines += [f"{r.what:<{width}}{r.target:>10}{r.value:>10}  {r.word()}" for r in rows]
    return "\n".join(lines)
