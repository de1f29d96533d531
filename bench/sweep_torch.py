#!/usr/bin/env python3
"""Times every op of brim beside PyTorch's eager one, on this machine's CPU, and prints what is slower.

`brim bench sweep` runs it. docs/BENCHMARKS.md says what is measured and how to read it.
"""

import argparse
import json
import os
import sys
import warnings

from compare import environment
from compare.busy import Watch
from compare.command import fail
from compare.files import file_name, write_text
from compare.sweep import report
from compare.sweep.plan import plan
from compare.sweep.progress import Progress
from compare.sweep.server import BrimFailed, Server


def counts(text):
    return [int(float(word)) for word in text.split(",")]


def words(text):
    return text.split(",")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("ops", nargs="*", help="ops to run (default: all)")
    parser.add_argument("--brim", required=True, help="brim's command")
    parser.add_argument("--sizes", type=counts, default=[10_000, 1_000_000], help="elements, comma-separated")
    parser.add_argument("--threads", type=counts, default=[1], help="threads of each side, comma-separated")
    parser.add_argument("--dtypes", type=words, default=[], help="comma-separated")
    parser.add_argument("--layouts", type=words, default=[], help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds of a case")
    parser.add_argument("--seconds", type=float, default=0.03, help="length of a measurement")
    parser.add_argument("--below", type=float, default=1.0, help="print the cases under this ratio")
    parser.add_argument("--json", type=file_name, metavar="FILE", help="write the report there (- for standard output)")
    return parser.parse_args()


def check_names(ours, theirs):
    """Fails unless both sides have the same ops."""
    for side, missing in (("PyTorch's table", ours - theirs), ("this build of brim", theirs - ours)):
        if missing:
            fail(f"{side} lacks {', '.join(sorted(missing))}; take both from one version of brim")


class Sweep:
    """Runs cases and keeps their rounds."""

    def __init__(self, server, builders, options):
        self.server, self.builders, self.options = server, builders, options
        self.records, self.failures, self.stopped = {}, {}, False

    def run(self, cases, what):
        """Rounds of these cases, behind those that they had before, until somebody stops them."""
        from compare.sweep import timing

        progress = Progress(len(cases))
        for done, case in enumerate(cases):
            if self.stopped:
                break
            progress.show(done, what + report.title(case))
            try:
                record = timing.measure_case(case, self.builders[case["op"]], self.server, self.options)
            except (BrimFailed, timing.Mismatch) as error:
                progress.clear()
                fail(f"{report.title(case)} of {case['elements']}: {error}")
            except KeyboardInterrupt:
                self.stopped = True
                break
            except Exception as error:  # pylint: disable=broad-except
                # PyTorch has many of its own, of sizes that an op cannot have or of no memory.
                first = (str(error).splitlines() or [""])[0]
                self.failures[tuple(case.values())] = f"{type(error).__name__}: {first}"[:200]
                continue
            before = self.records.setdefault(tuple(case.values()), {})
            for key, values in record.items():
                before.setdefault(key, []).extend(values)
        progress.clear()

    def measured(self, cases):
        return [case for case in cases if tuple(case.values()) in self.records]

    def result(self, case):
        return report.finish(case, self.records[tuple(case.values())])


def main():
    options = parse()
    torch = environment.import_torch("brim bench sweep")
    from compare.sweep.ops import sweep_ops

    warnings.filterwarnings("ignore", category=UserWarning)  # of variances of one number, for one
    torch.set_num_interop_threads(1)
    builders = sweep_ops()
    out = sys.stderr if options.json == "-" else sys.stdout
    about = {"torch": torch.__version__, "cpu": environment.cpu_model(), "load_average_before": os.getloadavg()}
    with Server(options.brim) as server:
        ops = server.ops()
        check_names({op["op"] for op in ops}, set(builders))
        cases = plan(ops, options)
        if not cases:
            fail("no op has these names, layouts and dtypes; `brim bench sweep list` tells them")
        print(f"PyTorch {about['torch']}, {about['cpu']}; {len(cases)} cases", file=out, flush=True)
        sweep = Sweep(server, builders, options)
        watch = Watch()
        sweep.run(cases, "")
        # What other work on the machine spoilt may not stand as a loss: as many rounds more decide.
        done = sweep.measured(cases)
        sweep.run([case for case in done if sweep.result(case)["ratio"] < options.below], "again: ")
        others = watch.share_of_others(server.cpu_seconds())
    results = [sweep.result(case) for case in done]
    for key, error in sweep.failures.items():
        print(f"left out: {' '.join(map(str, key))}: {error}", file=out)
    if sweep.stopped:
        print(f"stopped after {len(results)} of {len(cases)} cases", file=out)
    if not results:
        fail("nothing was measured")
    parts = report.summaries(results)
    print(report.below_table(results, options.below), report.summary_table(parts), sep="\n\n", file=out)
    print(f"\nothers used {100 * others:.0f} % of the CPUs meanwhile", file=out)
    if options.json:
        about |= {"others_share_of_cpus": others, "load_average_after": os.getloadavg()}
        about |= {"rounds": options.rounds, "seconds": options.seconds, "summary": parts, "results": results}
        about |= {"left_out": [[*key, error] for key, error in sweep.failures.items()]}
        write_text(options.json, json.dumps(about, indent=1) + "\n")
    if sweep.stopped:
        raise SystemExit(130)


if __name__ == "__main__":
    main()
