#!/usr/bin/env python3
"""Compares brim's all-reduce between processes of one machine with Open MPI's MPI_Allreduce called bare, in one run.

Both sum f32 in place; the slowest rank's time counts, and the median over repetitions. A round measures each side once, and
the order alternates; ratios (brim's time over MPI's) are taken inside each round, and their median and range over the rounds
are reported. brim sums in its fixed tree, MPI in whatever order its algorithm has. All of brim's backends are measured: over
TCP, with Open MPI as the carrier of its messages, and between threads of one process.

Needs mpicc and mpirun (apt-get install libopenmpi-dev openmpi-bin) and build/bench/all_reduce_bench.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile

from compare.files import file_name, write_text
from compare.rounds import alternate, medians, ratios

HERE = os.path.dirname(os.path.abspath(__file__))


def fail(message):
    print(f"compare_all_reduce: {message}", file=sys.stderr)
    raise SystemExit(1)


def seconds_of(command, **variables):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    if done.returncode != 0:
        fail(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of brim's build (default: %(default)s)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--bytes", type=int, nargs="+", default=[1000, 250_000, 100_000_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=file_name, help="write all numbers to a file")
    options = parser.parse_args()
    report = []
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "mpi_all_reduce")
        subprocess.run(["mpicc", "-O2", os.path.join(HERE, "compare/mpi_all_reduce.c"), "-o", program], check=True)
        for ranks in options.ranks:
            for size in options.bytes:
                words = [str(size), str(5 if size > 10_000_000 else 200)]
                mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "plm", "isolated", "-n", str(ranks)]
                launch = [os.path.join(options.build, "bin/brim"), "launch", "-n", str(ranks)]
                ours = [os.path.join(options.build, "bench/all_reduce_bench"), *words]
                sides = {
                    "mpi": functools.partial(seconds_of, [*mpirun, program, *words]),
                    "brim": functools.partial(seconds_of, [*launch, *ours]),
                    "brim_over_mpi": functools.partial(seconds_of, [*mpirun, *ours], BRIM_DIST_BACKEND="mpi"),
                    "brim_threads": functools.partial(seconds_of, [*ours, str(ranks)]),
                }
                rounds = alternate(sides, options.rounds)
                report.append({"ranks": ranks, "bytes": size, "rounds": rounds})
                for side in ("brim", "brim_over_mpi", "brim_threads"):
                    times = ratios(rounds, side, "mpi")
                    report[-1][f"ratios_{side}"] = times
                    brim, mpi = medians(rounds, side, "mpi")
                    print(
                        f"{ranks} ranks, {size} B: {side} {brim * 1e3:.3f} ms, MPI_Allreduce {mpi * 1e3:.3f} ms: "
                        f"{statistics.median(times):.2f} times its time ({min(times):.2f} to {max(times):.2f})",
                        flush=True,
                    )
    if options.json:
        write_text(options.json, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
