"""The report as text."""

import textwrap

from compare.busy import BUSY
from compare.deploy import targets

MIB = 1 << 20


def milliseconds(us):
    return f"{us / 1000:.3f}" if us < 1e5 else f"{us / 1000:.0f}"


def time_header():
    return (
        f"{'model':<18}{'':>6}{'batch':>6}  {'side':<12}{'fastest':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms':>9}"
        f"{'samples/s':>12}{'J/sample':>10}{'difference':>12}"
    )


def time_lines(record):
    """A line a side, the fastest first."""
    lines = []
    head = f"{record['model']:<18}{record['precision']:>6}{record['batch']:>6}  "
    for side, m in sorted(record["sides"].items(), key=lambda item: item[1]["p50_us"]):
        joules = m["joules_per_sample"]
        lines.append(
            f"{head}{side:<12}{milliseconds(m['min_us']):>9}{milliseconds(m['p50_us']):>9}{milliseconds(m['p99_us']):>9}"
            f"{milliseconds(m['cpu_us']):>9}{m['samples_per_s']:>12.1f}{'-' if joules is None else f'{joules:.2g}':>10}{m['difference']:>12.1e}"
        )
        head = " " * len(head)
    for side, why in record["absent"].items():
        lines.append(f"{head}{side:<12} absent: {textwrap.shorten(why, 150)}")
    if "speedup" in record:
        s = record["speedup"]
        text = f"brim is {s['median']:.2f}x ({s['min']:.2f}..{s['max']:.2f}) as fast as {record['best_peer']}"
        text += f"; fastest calls {record['speedup_of_fastest_calls']:.2f}x, CPU time {record['speedup_of_cpu_time']:.2f}x"
        if "speedup_over_torch" in record:
            text += f"; {record['speedup_over_torch']['median']:.2f}x as PyTorch"
        if record["others_share_of_cpus"] > BUSY:
            text += f"   (others used {100 * record['others_share_of_cpus']:.0f} % of the CPUs)"
        lines.append(f"{'':<32}{text}")
    return "\n".join(lines)


def outside_header():
    return (
        f"{'model':<18}{'':>6}  {'side':<12}{'file to result ms':>18}{'import ms':>11}{'process ms':>11}{'peak MiB':>10}"
        f"{'above Python':>13}{'file MiB':>10}{'runtime MiB':>12}"
    )


def outside_lines(record):
    lines, head = [], f"{record['model']:<18}{record['precision']:>6}  "
    bare = record["python_peak_rss"]
    for side, m in sorted(record["sides"].items(), key=lambda item: item[1]["file_to_result_s"]):
        seconds = [1000 * m[key] for key in ("file_to_result_s", "import_s", "process_s")]
        lines.append(
            f"{head}{side:<12}{seconds[0]:>18.2f}{seconds[1]:>11.1f}{seconds[2]:>11.1f}{m['peak_rss'] / MIB:>10.1f}"
            f"{(m['peak_rss'] - bare) / MIB:>13.1f}{m['file_bytes'] / MIB:>10.2f}{m['runtime_bytes'] / MIB:>12.2f}"
        )
        head = " " * len(head)
    return "\n".join(lines)


def verdict_table(report):
    rows = targets.verdicts(report)
    if not rows:
        return ""
    width, values = max(len(row.what) for row in rows), max(len(row.value) for row in rows) + 2
    lines = [f"{'target':<{width}}{'bar':>10}{'value':>{values}}"]
    lines += [f"{r.what:<{width}}{r.target:>10}{r.value:>{values}}  {r.word()}" for r in rows]
    return "\n".join(lines)
