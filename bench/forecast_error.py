#!/usr/bin/env python3
"""How far `brim forecast` is from trainings on virtual accelerators that are paced by the same profile: for each profile, network
and number of devices the mean time of a step, measured by `brim doctor` (three short trainings from the beginning, in which the
device is full), over the forecast one. The slowdown is chosen so that this machine's CPU keeps up, and the pairs come in an
order that is drawn. Everything here is simulated. forecast_error.py BRIM [--devices 1,2,4] [--json FILE]"""

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

def recipe_of(folder, name, devices):
    """Of as many devices; brim train shares a batch among them, brim forecast takes each device's."""
    batch = NETWORKS[name]
    path = os.path.join(folder, f"{name.replace(' ', '-')}-{devices}.toml")
    return write_recipe(path, name.split(" ")[0], batch * devices), batch


def step_of(brim, recipe, devices, **environment):
    names = ",".join(f"sim:{i}" for i in range(devices))
    return seconds_per_step(brim, recipe, names, BRIM_SIM_DEVICES=str(devices), **environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("brim", type=file_name)
    parser.add_argument("--devices", default="1,2", help="how many, as 1,2,4")
    parser.add_argument("--profiles", default=",".join(PROFILES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=file_name)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
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
            forecasts = run(
                options.brim,
                ["forecast", recipe, "--profile", profile, "--batch", str(batch), "--classes", "10", "--ranks", str(devices)],
            )["forecasts"]
            forecast = next(f for f in forecasts if f["ranks"] == devices and f["overlap"])["seconds_per_step"]
            if (network, devices) not in on_cpu:  # without a profile: as fast as the CPU is
                on_cpu[network, devices] = step_of(options.brim, recipe, devices)
            slowdown = max(AHEAD * on_cpu[network, devices], LEAST_STEP) / forecast
            step = step_of(
                options.brim, recipe, devices, BRIM_SIM_PROFILE=profile, BRIM_SIM_SLOWDOWN=f"{slowdown:.6g}"
            )
            rows.append(
                {
                    "profile": profile,
                    "network": network,
                    "batch": batch,
                    "devices": devices,
                    "forecast_s": forecast,
                    "slowdown": slowdown,
                    "measured_s": step / slowdown,
                    "ratio": step / slowdown / forecast,
                }
            )
            print(
                f"{profile:6} {network:20} {devices} device{'s' if devices > 1 else ' '}  forecast {1e6 * forecast:9.1f} us  "
                f"measured {1e6 * step / slowdown:9.1f} us  {100 * (step / slowdown / forecast - 1):+6.2f} %",
                flush=True,
            )
    tell_errors(rows, "error of the forecast", options.json)


if __name__ == "__main__":
    try:
        main()
    except Refused as error:
        sys.exit(str(error))
