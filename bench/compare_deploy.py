#!/usr/bin/env python3
"""Compares engines of brim with ONNX Runtime, OpenVINO, ncnn and PyTorch on this machine's CPU.

`brim bench deploy` runs it. All sides run the same weights on the same inputs with the same number of threads, those of
others out of the same ONNX file. docs/DEPLOY.md says what is measured and how to read it.
"""

import argparse
import json
import logging
import math
import os
import sys
import tempfile

from compare import environment
from compare.command import Brim, fail
from compare.deploy import isa
from compare.files import file_name, write_text

PARTS = ("time", "process")
MODELS = ("tutorial-cnn", "mobilenet_v2", "resnet18", "resnet50")
SIDES = ("brim", "onnxruntime", "openvino", "ncnn", "torch")


def parse():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", help=f"networks by name (default: {', '.join(MODELS)})")
    parser.add_argument("--weights", type=file_name, metavar="FILE", help="a trained network instead")
    parser.add_argument("--recipe", type=file_name, help="for weights that do not name theirs")
    parser.add_argument("--precision", action="append", choices=("fp32", "int8"), help="(default: both)")
    parser.add_argument("--batch", action="append", type=int, help="samples at once (default: 1 and 16)")
    parser.add_argument("--part", action="append", choices=PARTS, help="what to compare (default: all parts)")
    parser.add_argument("--side", action="append", choices=SIDES, help="who is compared (default: all that are there)")
    parser.add_argument("--isa", choices=tuple(isa.SWITCHES), help="the most that sides may use, where they can be told")
    parser.add_argument("--json", type=file_name, metavar="FILE", help="write the report there (- for standard output)")
    parser.add_argument("--svg", type=file_name, metavar="FILE", help="draw the report as bars")
    parser.add_argument("--brim", default=os.path.join(root, "build", "bin", "brim"), help="brim's command")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of each side")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of one measurement")
    options = parser.parse_args()
    if options.threads < 1 or options.rounds < 1 or not 0 < options.seconds < math.inf:
        fail("--threads and --rounds must be at least 1, and --seconds above 0")
    if not os.access(options.brim, os.X_OK):
        fail(f"no command at {options.brim}; run `make build` first or name it with --brim PATH")
    options.part, options.batch = options.part or list(PARTS), options.batch or [1, 16]
    # Weights are measured as they are.
    options.precision = options.precision or (["fp32", "int8"] if not options.weights else ["fp32"])
    return options


def find_library(brim):
    """libbrim_rt of the same build or prefix as the command, unless BRIM_RT_LIBRARY names one."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(brim))), "lib")
    for place in (folder, *(entry.path for entry in os.scandir(folder) if entry.is_dir())) if os.path.isdir(folder) else ():
        path = os.path.join(place, "libbrim_rt.so")
        if os.path.exists(path):
            os.environ.setdefault("BRIM_RT_LIBRARY", path)


def measure(options, there, report, say):
    """Runs the parts, printing each result as it comes."""
    from compare.deploy import models, outside, tables, timing

    with tempfile.TemporaryDirectory() as folder:
        names = options.models or ([None] if options.weights else list(MODELS))
        made = [
            models.prepare(options, name, precision, os.path.join(folder, f"{i}-{precision}"))
            for i, name in enumerate(names)
            for precision in options.precision
        ]
        if "time" in options.part:
            say(f"\n{tables.time_header()}")
            for about in made:
                for batch in options.batch:
                    report["time"].append(timing.compare(about, batch, options, there))
                    say(tables.time_lines(report["time"][-1]))
        if "process" in options.part:
            say(f"\n{tables.outside_header()}")
            for about in made:
                report["outside"].append(outside.compare(about, options.batch[0], options, there))
                say(tables.outside_lines(report["outside"][-1]))
    table = tables.verdict_table(report)
    if table:
        say(f"\n{table}")


def main():
    options = parse()
    isa.limit(options.isa)
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    find_library(options.brim)
    try:
        import numpy  # noqa: F401
    except ImportError:
        fail(
            f"NumPy is missing from {sys.executable}; make an environment: python3 -m venv ~/venv-deploy && "
            "~/venv-deploy/bin/pip install numpy onnxruntime openvino ncnn pnnx torch torchvision, "
            "then run: brim bench deploy --python ~/venv-deploy/bin/python"
        )
    from compare.deploy import energy, sides
    from compare.deploy.chart import svg

    logging.getLogger("torch").setLevel(logging.ERROR)  # that there is no GPU, for one

    def say(text):
        print(text, file=sys.stderr if options.json == "-" else sys.stdout, flush=True)

    there = []
    report = {"cpu": environment.cpu_model(), "threads": options.threads, "isa": options.isa, "rounds": options.rounds}
    report |= {"seconds": options.seconds, "sides": {}, "absent": {}, "time": [], "outside": []}
    report["load_average_before"] = os.getloadavg()
    say(f"{options.threads} thread(s), {report['cpu']}")
    for side in options.side or SIDES:
        why = sides.missing(side)
        if why:
            report["absent"][side] = why
            say(f"absent: {side}: {why}")
            continue
        there.append(side)
        report["sides"][side] = {"version": sides.version(side), "isa": isa.used_by(side, options.isa)}
        say(f"{side} {report['sides'][side]['version']}, instructions: {report['sides'][side]['isa']}")
    if not there:
        fail(f"none of the sides is there; install one: {sys.executable} -m pip install onnxruntime")
    report["energy_absent"] = energy.why_absent()
    if report["energy_absent"]:
        say(f"no joules: {report['energy_absent']}")
    report["fma_peak"] = Brim(options.brim, options.threads).record("fma-peak")
    say(f"FMA peak: {report['fma_peak']['gflops']:.0f} GFLOP/s ({report['fma_peak']['isa']})")
    measure(options, there, report, say)
    report["load_average_after"] = os.getloadavg()
    if options.json:
        write_text(options.json, json.dumps(report, indent=1) + "\n")
    if options.svg:
        write_text(options.svg, svg(report))


if __name__ == "__main__":
    main()
