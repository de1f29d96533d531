#!/usr/bin/env python3
"""What it costs a training to be watched: blocks of `brim train` in pairs, one alone and one with sensors, files, TensorBoard,
and with clients that ask its socket and its metrics twice a second. Ratios of the median step's time and of the CPU time.
watching_cost.py BRIM [BLOCKS]"""

import json
import os
import pathlib
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TRAIN = ["train", "tutorial-cnn", "--data", "shapes10", "--epochs", "8", "--workers", "1"]


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


def block(brim, folder, watched):
    options, done, watcher = ["--monitor", "0"], threading.Event(), None
    if watched:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        out = f"{folder}/{time.monotonic_ns()}"
        options = ["--monitor", "1", "--out", out, "--tensorboard", f"{out}/events", "--metrics", str(port)]
        watcher = threading.Thread(target=ask, args=(f"{folder}/run", port, done))
        watcher.start()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([brim, *TRAIN, *options, "--json", f"{folder}/result.json"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "BRIM_RUNTIME_DIR": f"{folder}/run"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if watcher:
        done.set()
        watcher.join()
    result = json.loads(pathlib.Path(f"{folder}/result.json").read_text())
    return result["us_per_step"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
            found = {}
            for watched in random.sample([False, True], 2):
                found[watched] = block(brim, folder, watched)
            if k >= 0:
                steps.append(found[True][0] / found[False][0])
                cpu.append(found[True][1] / found[False][1])
    for name, ratios in (("step", steps), ("cpu", cpu)):
        low, high = interval(ratios)
        print(f"{name}: {statistics.median(ratios):.4f} ({low:.4f} to {high:.4f}), {blocks} blocks")


main()
