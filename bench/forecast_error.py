#!/usr/bin/env python3
"""How far `brim forecast` is from trainings: for each profile, network and number of devices from the mean step on virtual
accelerators that are paced by the same profile, with a slowdown that this machine's CPU keeps up with (short trainings of `brim
doctor`, in which the device is full); everything of that is simulated. Or, with --cpu DATA, from the mean step of `brim train` on
this machine's CPU: for each network and number of threads. Cases come in an
order that is drawn. forecast_error.py BRIM [--devices 1,2,4 | --cpu DATA [--threads 1,2]] [--json FILE]"""

import argparse
import os
import random
import sys
import tempfile

from compare.files import file_name
from compare.paced import AHEAD, Refused, run, seconds_per_step, tell_errors, write_recipe

PROFILES = ["t4", "v100", "l4", "a100", "h100", "h200"]
# Samples of each device; pictures of 32 x 32 in ten classes. Nothing was fitted to any of them.
NETWORKS = {"tutorial-cnn": 4, "tutorial-cnn at 64": 64, "mlp": 32, "resnet18-cifar": 4, "resnet50": 2}
LEAST_STEP = 0.02  # seconds
SECONDS = 4  # of a training, roughly
MIN_STEPS, MAX_STEPS = 30, 20000


def recipe_of(folder, name, devices=1, epochs=1):
    """Of as many devices; brim train shares a batch among them, brim forecast takes each device's."""
    batch = NETWORKS[name]
    path = os.path.join(folder, f"{name.replace(' ', '-')}-{devices}.toml")
    return write_recipe(path, name.split(" ")[0], batch * devices, epochs), batch


def train(brim, recipe, step, *options, **environment):
    """The median step and the mean one of a training whose steps take about so long."""
    steps = int(min(max(SECONDS / step, MIN_STEPS), MAX_STEPS))
    found = run(brim, ["train", recipe, "--steps", str(steps), "--workers", "1", *options], **environment)
    return found["us_per_step"] * 1e-6, found["batch"] / found["images_per_s"]


def forecast(brim, recipe, batch, *options):
    return run(brim, ["forecast", recipe, "--batch", str(batch), *options])["forecasts"]


def tell(row, what):
    print(
        f"{what:42} forecast {1e6 * row['forecast_s']:9.1f} us  measured {1e6 * row['measured_s']:9.1f} us  "
        f"{100 * (row['ratio'] - 1):+6.2f} %",
        flush=True,
    )


def on_profiles(options, folder):
    cases = [
        (profile, network, int(devices))
        for profile in options.profiles.split(",")
        for network in NETWORKS
        for devices in options.devices.split(",")
    ]
    random.Random(options.seed).shuffle(cases)
    on_cpu = {}
    for profile, network, devices in cases:
        recipe, batch = recipe_of(folder, network, devices)
        names = ",".join(f"sim:{i}" for i in range(devices))
        where = {"BRIM_SIM_DEVICES": str(devices)}
        rows = forecast(options.brim, recipe, batch, "--device", profile, "--classes", "10", "--ranks", str(devices))
        expected = next(f for f in rows if f["ranks"] == devices and f["overlap"])["seconds_per_step"]
        if (network, devices) not in on_cpu:  # without a profile: as fast as the CPU is
            on_cpu[network, devices] = seconds_per_step(options.brim, recipe, names, **where)
        slowdown = max(AHEAD * on_cpu[network, devices], LEAST_STEP) / expected
        paced = {**where, "BRIM_SIM_PROFILE": profile, "BRIM_SIM_SLOWDOWN": f"{slowdown:.6g}"}
        step = seconds_per_step(options.brim, recipe, names, **paced) / slowdown
        row = {"profile": profile, "network": network, "batch": batch, "devices": devices, "forecast_s": expected}
        row |= {"slowdown": slowdown, "measured_s": step, "ratio": step / expected}
        tell(row, f"{profile:6} {network:20} {devices} device{'s' if devices > 1 else ''}")
        yield row


def on_threads(options, folder):
    cases = [(network, threads) for network in NETWORKS for threads in options.threads.split(",")]
    random.Random(options.seed).shuffle(cases)
    for network, threads in cases:
        recipe, batch = recipe_of(folder, network, epochs=100000)
        where = ["--device", "cpu", "--threads", threads, "--data", options.cpu]
        [expected] = forecast(options.brim, recipe, batch, *where)
        median, mean = train(options.brim, recipe, expected["seconds_per_step"], *where)
        row = {"network": network, "batch": batch, "threads": int(threads), "forecast_s": expected["seconds_per_step"]}
        # The mean: workers take cores in some steps, and none in others.
        row |= {"shared_s": expected["shared_s"], "measured_s": mean, "median_s": median, "ratio": mean / expected["seconds_per_step"]}
        tell(row, f"{network:20} {threads} thread{'s' if threads != '1' else ''}")
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("brim", type=file_name)
    parser.add_argument("--devices", default="1,2", help="how many, as 1,2,4")
    parser.add_argument("--profiles", default=",".join(PROFILES))
    parser.add_argument("--cpu", metavar="DATA", help="trainings on this data by the CPU")
    parser.add_argument("--threads", default="1,2", help="of the CPU, as 1,2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=file_name)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = list((on_threads if options.cpu else on_profiles)(options, folder))
    tell_errors(rows, "error of the forecast", options.json, simulated=not options.cpu)


if __name__ == "__main__":
    try:
        main()
    except Refused as error:
        sys.exit(str(error))
