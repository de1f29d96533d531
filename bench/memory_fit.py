#!/usr/bin/env python3
"""How far `brim plan` is from trainings under a limit of memory on virtual accelerators that are paced by the same profile: for
each network and share of what temporaries take without a limit, the time of a step, measured by `brim doctor` (three short
trainings), over the planned one. The slowdown is chosen so that this machine's CPU keeps up. Everything here is simulated.
memory_fit.py BRIM [--profiles t4,h100] [--json FILE]"""

import argparse
import os
import sys
import tempfile

from compare.files import file_name
from compare.paced import AHEAD, Refused, run, seconds_per_step, tell_errors, write_recipe

# Samples of a step; pictures of 32 x 32 in ten classes.
NETWORKS = {"resnet18-cifar": 16, "resnet34-cifar": 12, "resnet50-cifar": 4}
SHARES = [0.85, 0.7, 0.6]  # of what temporaries take without a limit


def plan(brim, recipe, batch, profile, *limits):
    words = ["plan", recipe, "--batch", str(batch), "--classes", "10", "--device", profile, *limits]
    return run(brim, words)["rows"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("brim", type=file_name)
    parser.add_argument("--profiles", default="t4,h100")
    parser.add_argument("--json", type=file_name)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for network, batch in NETWORKS.items():
            recipe = write_recipe(os.path.join(folder, f"{network}.toml"), network, batch)
            on_cpu = seconds_per_step(options.brim, recipe)  # without a profile: as fast as the CPU is
            for profile in options.profiles.split(","):
                free = plan(options.brim, recipe, batch, profile)
                for share in SHARES:
                    limit = int(free["memory_bytes"] - (1 - share) * free["temporaries_bytes"])
                    planned = plan(options.brim, recipe, batch, profile, "--limit", str(limit))
                    if not planned["fits"]:
                        print(f"{profile:6} {network:16} {share:.2f} of the temporaries: does not fit")
                        continue
                    slowdown = AHEAD * on_cpu / planned["step_s"]
                    try:
                        measured = seconds_per_step(
                            options.brim,
                            recipe,
                            options=["--memory-limit", str(limit)],
                            BRIM_SIM_PROFILE=profile,
                            BRIM_SIM_SLOWDOWN=f"{slowdown:.6g}",
                        )
                    except Refused as error:  # it holds another batch than was planned
                        print(error)
                        continue
                    step = planned["step_s"]
                    rows.append(
                        {
                            "profile": profile,
                            "network": network,
                            "share": share,
                            "planned_s": step,
                            "without_limit_s": free["step_s"],
                            "measured_s": measured / slowdown,
                            "ratio": measured / slowdown / step,
                        }
                    )
                    print(
                        f"{profile:6} {network:16} {share:.2f} of the temporaries  planned {1e6 * step:9.1f} us "
                        f"({100 * (step / free['step_s'] - 1):+.1f} % by the limit)  measured {1e6 * measured / slowdown:9.1f} us  "
                        f"{100 * (rows[-1]['ratio'] - 1):+6.2f} %",
                        flush=True,
                    )
    if not rows:
        raise SystemExit("not one training fits its limit")
    tell_errors(rows, "error", options.json)


if __name__ == "__main__":
    try:
        main()
    except Refused as error:
        sys.exit(str(error))
