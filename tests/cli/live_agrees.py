#!/usr/bin/env python3
"""Runs that are drawn at random: what a training published last, the account of its result and its trace say the same.
live_agrees.py BRIM [--runs N] [--seed S]"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile


def drawn(draw):
    device = draw.choice(["cpu", "cpu", "sim:0", "sim:0,sim:1"])
    options = ["--device", device, "--batch", str(draw.choice([4, 8, 32, 100])), "--steps", str(draw.randint(50, 800)),
               "--compile", draw.choice(["on", "off"]), "--monitor", draw.choice(["0", "0.05", "1"]),
               "--checkpoint-every", draw.choice(["epoch", "100", "60s"])]
    if "," not in device:
        options += ["--workers", draw.choice(["0", "1", "2"])]
    return options


def kernel_seconds(trace, device):
    """Seconds that a virtual accelerator's kernels ran."""
    events = json.loads(trace.read_text())["traceEvents"]
    processes = {e["pid"] for e in events if e.get("name") == "process_name" and e["args"]["name"] == device}
    return sum(e["dur"] for e in events if e.get("cat") == "compute" and e["pid"] in processes) * 1e-6


def check(brim, options, folder):
    """How far apart they are, as shares of the wall time: live and final account, trace and account."""
    out, trace = folder / "run", folder / "trace.json"
    subprocess.run([brim, "train", "tutorial-cnn", "--data", "shapes10", *options, "--out", out, "--trace", trace],
                   check=True, stdout=subprocess.DEVNULL)
    result = json.loads((out / "result.json").read_text())
    last = json.loads((out / "history.jsonl").read_text().splitlines()[-1])
    assert last["state"] == "finished" and last["step"] == result["steps"], last
    live_apart = trace_apart = 0
    for device in last["devices"]:
        wall, live = device["account"]["wall"], device["account"]["seconds"]
        assert abs(sum(live.values()) - wall) < 1e-6 * max(1, wall), device
        final = result["accounts"][device["device"]]
        for cause, share in final.items():
            live_apart = max(live_apart, abs(live.get(cause.replace("_", " "), 0) / wall - share))
        if device["device"].startswith("sim"):  # its kernels' time is compute, or stolen of it
            kernels, least = kernel_seconds(trace, device["device"]), live.get("compute", 0)
            most = least + live.get("stolen", 0) + live.get("evaluation", 0)
            trace_apart = max(trace_apart, (least - kernels) / wall, (kernels - most) / wall)
    return live_apart, trace_apart


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("brim")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    worst = 0
    for _ in range(arguments.runs):
        options = drawn(draw)
        with tempfile.TemporaryDirectory() as folder:
            live, trace = check(arguments.brim, options, pathlib.Path(folder))
        print(f"live {100 * live:6.3f} %, trace {100 * trace:6.3f} % of the time apart: {' '.join(options)}", flush=True)
        worst = max(worst, live, trace)
    assert worst < 0.01, f"{100 * worst:.2f} % of the time apart"


main()
