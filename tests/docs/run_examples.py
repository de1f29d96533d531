#!/usr/bin/env python3
"""The short examples run, do what they print, and stay short; examples/README.md lists all of them.

    run_examples.py FOLDER_OF_PROGRAMS"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_LINES = 79

# Arguments, and what the end of the output looks like. They end with 1 where they did not learn.
RUNS = [
    ("own_data", ["cpu"], r"after: off by 0\.0\d+, of frequencies between 0\.1 and 0\.5\n$"),
    ("own_data", ["sim:0"], r"after: off by 0\.0\d+"),
    ("gpt_block", ["cpu"], r"step 200: loss [\d.]+, (9\d|100)\.\d % right\n$"),
    ("gan", ["cpu"], r"step 2000: radius [\d.]+ \+- [\d.]+, of 1 \+- 0\.05\n$"),
    ("gradient_accumulation", ["cpu"], r"weights differ by \d\.\de-\d+ at most"),
    ("mixed_precision", ["cpu", "f16"], r"f16 on cpu: .* weights in f32\nscale of the loss: 65536\naccuracy"),
    ("mixed_precision", ["cpu", "bf16"], r"bf16 on cpu: .* weights in f32\naccuracy"),
    ("two_devices", ["sim:0", "sim:1"], r"fc\.bias +sim:1\nloss on .*\nweights of both: the same bits\n$"),
    ("own_loop", ["own_loop_run", "shapes10", "cpu"], r"epoch 3  loss [\d.]+  accuracy [\d.]+ %\n$"),
    ("own_loop", ["own_loop_run", "shapes10", "cpu"], r"from epoch 4, batch 1\n$"),  # all is done already
    ("own_op", ["cpu"], r"\S"),
]


def faults_of_files():
    listed = (ROOT / "examples/README.md").read_text()
    for file in sorted((ROOT / "examples").glob("*.cpp")):
        if f"]({file.name})" not in listed:
            yield f"examples/README.md does not list {file.name}"
    for name in {name for name, _, _ in RUNS} - {"own_op"}:
        lines = len((ROOT / f"examples/{name}.cpp").read_text().splitlines())
        if lines > MAX_LINES:
            yield f"examples/{name}.cpp has {lines} lines, and may have {MAX_LINES}"


def faults_of_runs(programs):
    with tempfile.TemporaryDirectory() as scratch:
        for name, arguments, expected in RUNS:
            run = subprocess.run([programs / name, *arguments], cwd=scratch, capture_output=True, text=True)
            if run.returncode != 0 or run.stderr or not re.search(expected, run.stdout):
                yield f"{name} {' '.join(arguments)} ended with {run.returncode}\n{run.stdout}{run.stderr}"
        for name in {name for name, _, _ in RUNS} - {"own_op", "own_loop"}:
            run = subprocess.run([programs / name, "sim:99", "sim:98"], cwd=scratch, capture_output=True, text=True)
            if run.returncode != 1 or run.stderr.count("\n") != 1 or "sim:99" not in run.stderr:
                yield f"{name} sim:99 ended with {run.returncode}, and says: {run.stderr}"


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    faults = [*faults_of_files(), *faults_of_runs(programs)]
    print("\n".join(faults) if faults else f"{len(RUNS)} runs of examples")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
