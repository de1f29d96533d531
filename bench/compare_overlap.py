#!/usr/bin/env python3
"""Compares training by two ranks on two hosts with and without reducing gradients while others are computed.

The hosts are network namespaces of this machine, joined by a virtual cable of a given speed (as root; `ip` and `tc` of iproute2
make and remove them), each rank has one thread and a core of its own. A round measures both, in random order; the median step counts, ratios are
taken inside each round, and their median and range over the rounds are reported.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from compare.files import file_name, write_text
from compare.rounds import alternate, medians, ratios

HOSTS = [("brim-overlap-0", "10.99.77.1"), ("brim-overlap-1", "10.99.77.2")]
PORT = "29513"


def fail(message):
    print(f"compare_overlap: {message}", file=sys.stderr)
    raise SystemExit(1)


def ip(*words):
    run_tool("ip", *words)


def run_tool(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"`{' '.join(words)}`: {done.stderr.strip()}")


def remove_hosts():
    for name, _ in HOSTS:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def make_hosts(gbit):
    remove_hosts()
    for name, _ in HOSTS:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", "brim0", "netns", HOSTS[0][0], "type", "veth", "peer", "name", "brim1", "netns", HOSTS[1][0])
    for k, (name, address) in enumerate(HOSTS):
        ip("-n", name, "address", "add", f"{address}/24", "dev", f"brim{k}")
        ip("-n", name, "link", "set", f"brim{k}", "up")
        if gbit > 0:
            limit = ["tbf", "rate", f"{gbit}gbit", "burst", "256kb", "latency", "50ms"]
            run_tool("tc", "-n", name, "qdisc", "add", "dev", f"brim{k}", "root", *limit)


def step(options, passes):
    """Seconds of the median step."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        train = [options.brim, "train", options.recipe, "--data", "shapes10", "--batch", str(2 * options.batch)]
        train += ["--steps", str(options.steps), "--epochs", "1000", "--threads", "1", "--monitor", "0"]
        train += ["--json", result] + ([f"--passes={passes}"] if passes else [])
        train += ["--compile", "off"] if options.eager else []
        common = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "BRIM_TOKEN": "overlap"}
        common |= {"MASTER_ADDR": HOSTS[0][1], "MASTER_PORT": PORT}
        ranks = []
        for rank, (name, _) in enumerate(HOSTS):
            command = ["ip", "netns", "exec", name, "taskset", "-c", str(rank), *train]
            environment = {**os.environ, **common, "RANK": str(rank)}
            ranks.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            )
        errors = [rank.communicate()[1] for rank in ranks]
        if any(rank.returncode != 0 for rank in ranks):
            fail(f"`{' '.join(train)}`: {errors[0].strip()}")
        with open(result, encoding="utf-8") as file:
            return json.load(file)["us_per_step"] * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="resnet18-cifar", help="(default: %(default)s)")
    parser.add_argument("--brim", default="build/bin/brim", help="the command (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="samples of each rank (default: %(default)s)")
    parser.add_argument("--gbit", type=float, default=2, help="of the cable, 0: no limit (default: %(default)s)")
    parser.add_argument("--eager", action="store_true", help="steps that are not compiled")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=file_name, help="write all numbers to a file")
    options = parser.parse_args()
    try:
        make_hosts(options.gbit)
        sides = {"overlap": lambda: step(options, ""), "behind": lambda: step(options, "-overlap")}
        rounds = alternate(sides, options.rounds)
    finally:
        remove_hosts()
    times = ratios(rounds, "behind", "overlap")
    overlap, behind = medians(rounds, "overlap", "behind")
    print(
        f"{options.recipe}: {overlap * 1e3:.3f} ms a step with overlap, {behind * 1e3:.3f} ms without: "
        f"{statistics.median(times):.2f} times as fast ({min(times):.2f} to {max(times):.2f})"
    )
    if options.json:
        write_text(options.json, json.dumps({"rounds": rounds, "ratios": times}, indent=2) + "\n")


if __name__ == "__main__":
    main()
