#!/usr/bin/env python3
"""Compares brim, eager and compiled, with PyTorch, eager and torch.compile, on this machine's CPU.

`brim bench compare` runs it. Both sides do the same work on the same shapes, with data in memory, the same dtype and
the same number of threads. docs/BENCHMARKS.md says what is measured and how to read it.
"""

import argparse
import importlib.util
import json
import logging
import math
import os
import re
import sys

from compare import environment
from compare.command import Brim, fail
from compare.files import file_name, write_text

PARTS = ("time", "equality", "memory", "startup")
MEMORY_CASES = ("resnet18-32-b64", "resnet18-224-b16")
STARTUP_CASES = ("tutorial-b4",)


def equality_effort(case):
    """-> (steps, draws). A step of ResNet-18 takes as long as thousands of the others, one of a block as tens."""
    return (20, 1) if case.startswith("resnet18") else (20, 3) if case.endswith("-block") else (200, 3)


def parse():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cases", nargs="*", help="cases to run (default: all; `--list` names them)")
    parser.add_argument("--part", action="append", choices=PARTS, help="what to compare (default: all parts)")
    parser.add_argument("--json", type=file_name, metavar="FILE", help="write the report there (- for standard output)")
    parser.add_argument("--svg", type=file_name, metavar="FILE", help="draw the report as bars")
    parser.add_argument("--brim", default=os.path.join(root, "build", "bin", "brim"), help="brim's command")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of each side")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of one measurement")
    parser.add_argument("--torch-only", action="store_true", help="time PyTorch alone")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    options = parser.parse_args()
    if options.threads < 1 or options.rounds < 1 or not 0 < options.seconds < math.inf:
        fail("--threads and --rounds must be at least 1, and --seconds above 0")
    options.part = options.part or list(PARTS)
    if options.torch_only:
        options.part = ["time"]
    elif not options.list and not os.access(options.brim, os.X_OK):
        fail(f"no command at {options.brim}; run `make build` first or name it with --brim PATH")
    return options


def torch_libraries(torch):
    """What PyTorch multiplies with, out of its own description of its build."""
    config = torch.__config__.show()

    def find(pattern):
        match = re.search(pattern, config)
        return match.group(1) if match else None

    return {
        "blas": find(r"BLAS_INFO=(\w+)"),
        "lapack": find(r"LAPACK_INFO=(\w+)"),
        "mkl": find(r"Math Kernel Library Version (\S+)"),
        "onednn": find(r"MKL-DNN v?(\S+)") if torch.backends.mkldnn.is_available() else None,
        "openmp": find(r"OpenMP (\d+)"),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "config": config,
        "parallel": torch.__config__.parallel_info(),
    }


def without_torchvision(cases):
    """Leaves ResNet-18 out, with a word, where torchvision is missing."""
    if importlib.util.find_spec("torchvision"):
        return cases
    left = {name: case for name, case in cases.items() if not name.startswith("resnet18")}
    print(f"skipped: resnet18 needs torchvision; install it: {sys.executable} -m pip install torchvision")
    return left


def compare(options, training, names, brim, report):
    """Runs the parts, printing each result as it comes."""
    from compare import equality, outside, tables, timing

    def run(part, title, cases, measure, line):
        if part not in options.part or not cases:
            return
        say(f"\n{title}")
        for case in cases:
            report.setdefault(part, []).append(measure(case))
            say(line(report[part][-1]))

    def say(text):
        print(text, file=sys.stderr if options.json == "-" else sys.stdout, flush=True)

    trained = [name for name in names if name in training]
    run(
        "time",
        tables.time_header(),
        names,
        lambda name: timing.compare_case(name, training, brim, options.rounds, options.seconds),
        tables.time_line,
    )
    if "equality" in options.part and trained and not importlib.util.find_spec("safetensors"):
        say(f"\nskipped: equality needs safetensors; install it: {sys.executable} -m pip install safetensors")
    else:
        run(
            "equality",
            "largest relative distance of a tensor's change from PyTorch's, of each draw of weights and batches",
            [name for name in trained if not training[name].draws_dropout],
            lambda name: equality.compare_weights(training[name], brim, *equality_effort(name)),
            tables.equality_line,
        )
    run(
        "memory",
        "peak resident memory of a process in training",
        [name for name in trained if name in MEMORY_CASES],
        lambda name: outside.memory(name, brim, options.threads),
        tables.memory_line,
    )
    run(
        "startup",
        "from the start of the process to the end of the first step (PyTorch's: with `import torch`)",
        [name for name in trained if name in STARTUP_CASES],
        lambda name: outside.startup(name, brim, options.threads, options.rounds),
        tables.startup_line,
    )
    table = tables.verdict_table(report)
    if table:
        say(f"\n{table}")


def main():
    options = parse()
    torch = environment.import_torch("brim bench compare")
    from compare.chart import svg
    from compare.networks import training_cases
    from compare.ops import op_cases

    logging.getLogger("torch").setLevel(logging.ERROR)  # that there is no GPU, for one
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    training = training_cases()
    names = [*training, *op_cases()]
    if options.list:
        print("\n".join(names))
        return
    unknown = [name for name in options.cases if name not in names]
    if unknown:
        fail(f"no case named {unknown[0]!r}; there are: {', '.join(names)}")
    brim = None if options.torch_only else Brim(options.brim, options.threads)
    out = sys.stderr if options.json == "-" else sys.stdout
    libraries = torch_libraries(torch)
    report = {
        "torch": torch.__version__,
        "torch_libraries": libraries,
        "cpu": environment.cpu_model(),
        "threads": options.threads,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "load_average_before": os.getloadavg(),
    }
    print(
        f"PyTorch {torch.__version__}: BLAS {libraries['blas']}, oneMKL {libraries['mkl']}, oneDNN "
        f"{libraries['onednn']}, {libraries['capability']}; {options.threads} thread(s), {report['cpu']}",
        file=out,
    )
    if brim:
        report["fma_peak"] = brim.record("fma-peak")
        peak = report["fma_peak"]
        print(f"FMA peak: {peak['gflops']:.0f} GFLOP/s ({peak['gflops_one_thread']:.0f} of one thread)", file=out)
    training = without_torchvision(training)
    known = brim.names() if brim else set(names)
    chosen = [n for n in options.cases or names if n in known and (n in training or not n.startswith("resnet18"))]
    compare(options, training, chosen, brim, report)
    report["load_average_after"] = os.getloadavg()
    if options.json:
        write_text(options.json, json.dumps(report, indent=1) + "\n")
    if options.svg:
        write_text(options.svg, svg(report))


if __name__ == "__main__":
    main()
