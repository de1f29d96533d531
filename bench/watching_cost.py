#!/usr/bin/env python3
"""What it costs a training to be watched: `brim train` in pairs, one alone and one with sensors, TensorBoard, and with clients
that ask its socket and its metrics twice a second; both have a folder with checkpoints and history. Both of a pair run at once,
each on a CPU of its own, so that what else the machine does meets both; which has which, and which begins, are drawn. Ratios of
the median step's time and of the CPU time.
watching_cost.py BRIM [BLOCKS]"""

import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TRAIN = ["train", "tutorial-cnn", "--data", "shapes10", "--epochs", "40", "--workers", "1"]


def ask(folder, port, done):
    """As `brim top` and Prometheus do."""
    while not done.wait(0.5):
        for path in pathlib.Path(folder).glob("*.sock"):
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(str(path))
                    while s.recv(1 << 16):
                        pass
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1).read()
            except OSError:
                pass


def start(brim, folder, watched, cpu):
    """A run on one CPU, and what ends it: its median step in microseconds and its CPU seconds."""
    name = f"{folder}/{time.monotonic_ns()}"
    options, done, watcher = ["--out", name, "--monitor", "0"], threading.Event(), None
    if watched:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        options = ["--out", name, "--monitor", "1", "--tensorboard", f"{name}/events", "--metrics", str(port)]
        watcher = threading.Thread(target=ask, args=(f"{name}.run", port, done))
        watcher.start()
    process = subprocess.Popen(["taskset", "-c", str(cpu), brim, *TRAIN, *options, "--json", f"{name}.json"], stdout=subprocess.DEVNULL,
                               env={**os.environ, "BRIM_RUNTIME_DIR": f"{name}.run"})

    def end():
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        done.set()
        if watcher:
            watcher.join()
        if status:
            sys.exit(f"brim ended with {process.returncode}")
        result = json.loads(pathlib.Path(f"{name}.json").read_text())
        return result["us_per_step"], usage.ru_utime + usage.ru_stime

    return end


def interval(ratios):
    """Of the median, at 95 % (order statistics)."""
    ordered, n = sorted(ratios), len(ratios)
    away = int(0.98 * n ** 0.5)
    return ordered[max(0, n // 2 - away)], ordered[min(n - 1, n // 2 + away)]


def main():
    brim, blocks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 41
    steps, cpu = [], []
    with tempfile.TemporaryDirectory() as folder:
        for k in range(-1, blocks):
            order, cpus = random.sample([False, True], 2), random.sample([0, 1], 2)
            ends = {watched: start(brim, folder, watched, cpu) for watched, cpu in zip(order, cpus)}
            found = {watched: end() for watched, end in ends.items()}
            if k >= 0:
                steps.append(found[True][0] / found[False][0])
                cpu.append(found[True][1] / found[False][1])
    for name, ratios in (("step", steps), ("cpu", cpu)):
        low, high = interval(ratios)
        print(f"{name}: {statistics.median(ratios):.4f} ({low:.4f} to {high:.4f}), {blocks} blocks")


main()
