#!/usr/bin/env python3
"""Ranks that are killed or stopped at random moments: each must be named within seconds, and the run must go on and end with
the weights that it would have had.

  tests/dist/failures.py --brim build/bin/brim --cases 100 --seed 1

A case trains shapes10 by `brim launch -n 4 --restarts 1` and sends SIGKILL or SIGSTOP to one of the ranks. Prints a line for
each, and at the end how soon ranks were named; exits 1 when one was not, or when weights differ.
"""

import argparse
import filecmp
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

NAMED_WITHIN = 5.0  # seconds
RANKS = 4


def command(brim, folder):
    """The same words for the plan and for each case, so that the weights' metadata agree."""
    train = ["train", "tutorial-cnn", "--epochs", "1", "--batch", "8", "--virtual-ranks", str(RANKS), "--threads", "1"]
    train += ["--checkpoint-every", "100", "--monitor", "0", "--out", folder, "--resume", folder]
    return [brim, "launch", "-n", str(RANKS), "--restarts", "1"] + train


def process_of(parent, rank):
    """The process of a rank among the children of the launcher; None if there is none (yet, or any more)."""
    try:
        with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as file:
            children = file.read().split()
        for pid in children:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"RANK={rank}".encode() in file.read().split(b"\0"):
                    return int(pid)
    except OSError:
        pass
    return None


def run_case(options, rng, folder):
    """Returns what was done, seconds until the rank was named (None: the run ended before) and what went wrong."""
    rank, stop = rng.randrange(RANKS), rng.random() < options.stops
    number = signal.SIGSTOP if stop else signal.SIGKILL
    with subprocess.Popen(
        command(options.brim, folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as run:
        lines = []

        def read():
            for line in run.stderr:
                lines.append((time.monotonic(), line))

        reader = threading.Thread(target=read)
        reader.start()
        time.sleep(rng.uniform(0.05, options.longest))
        pid, sent = process_of(run.pid, rank), None
        if pid is not None and run.poll() is None:
            try:
                os.kill(pid, number)
                sent = time.monotonic()
            except ProcessLookupError:
                pass
        try:
            code = run.wait(timeout=90)
        except subprocess.TimeoutExpired:
            run.terminate()
            run.wait()
            code = "none: it hangs"
        reader.join()
    what = f"{signal.Signals(number).name} to rank {rank}"
    text = "".join(line for _, line in lines)
    if code != 0:
        return what, None, f"exit code {code}:\n{text}"
    name = re.compile(rf"rank {rank} .*(ended without a word|not been heard of|(killed|stopped) by signal)")
    named = [at - sent for at, line in lines if sent is not None and name.search(line)]
    if not named:  # it was at its end already, or had not begun
        return what, None, "" if "starting all" not in text else f"rank {rank} was not named:\n{text}"
    return what, named[0], "" if named[0] <= NAMED_WITHIN else f"named after {named[0]:.1f} s:\n{text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brim", default="build/bin/brim")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stops", type=float, default=0.3, help="share of SIGSTOP (default: %(default)s)")
    parser.add_argument("--longest", type=float, default=1.5, help="seconds until the signal, at most")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    failures, named = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        planned = os.path.join(scratch, "planned")
        subprocess.run(command(options.brim, planned), check=True, capture_output=True)
        for case in range(options.cases):
            folder = os.path.join(scratch, str(case))
            what, seconds, wrong = run_case(options, rng, folder)
            weights = "model.safetensors"
            if not wrong and not filecmp.cmp(os.path.join(planned, weights), os.path.join(folder, weights), shallow=False):
                wrong = "the weights differ from the planned ones"
            if seconds is not None:
                named.append(seconds)
            failures += bool(wrong)
            print(f"{case}: {what}: {wrong or ('no effect' if seconds is None else f'named after {seconds:.2f} s')}", flush=True)
    if named:
        print(f"{len(named)} ranks were named, after {statistics.median(named):.2f} s in the median, {max(named):.2f} s at most")
    print(f"{options.cases} cases, {failures} failures")
    return 1 if failures or not named else 0


if __name__ == "__main__":
    sys.exit(main())
