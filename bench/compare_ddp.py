#!/usr/bin/env python3
"""Compares data parallel training of brim with PyTorch's DistributedDataParallel over Gloo, on the CPUs of one machine.

  tutorial-cnn     the network of PyTorch's CIFAR-10 tutorial, batches of 4 for each rank.
  resnet18-cifar   ResNet-18 on pictures of 32 x 32, batches of 16 for each rank.

brim trains by `brim launch -n RANKS train`, with its loader, progress and account; PyTorch gets one batch of random numbers
that lies in memory, again and again. Each rank has one thread (`--threads`). A round measures each side once, and the order
alternates; the median step counts, ratios are taken inside each round, and their median and range over the rounds are
reported.

torch must be installed in the Python that runs this script.
"""

import argparse
import functools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from compare.files import file_name, write_text
from compare.networks import TutorialNet, resnet18
from compare.rounds import alternate, medians, ratios

CASES = {"tutorial-cnn": (TutorialNet, 4), "resnet18-cifar": (lambda: resnet18(32), 16)}


def fail(message):
    print(f"compare_ddp: {message}", file=sys.stderr)
    raise SystemExit(1)


def brim_step(options, case, steps):
    """Seconds of the median step."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        command = [options.brim, "launch", "-n", str(options.ranks), "train", case, "--data", "shapes10"]
        command += ["--batch", str(CASES[case][1] * options.ranks), "--steps", str(steps), "--epochs", "1000"]
        command += ["--threads", str(options.threads), "--monitor", "0", "--json", result]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
        with open(result, encoding="utf-8") as file:
            return json.load(file)["us_per_step"] * 1e-6


def torch_rank(rank, options, case, steps, port, result):
    import torch

    torch.set_num_threads(options.threads)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=options.ranks)
    make, batch = CASES[case]
    torch.manual_seed(0)
    net = torch.nn.parallel.DistributedDataParallel(make())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    x = torch.randn(batch, 3, 32, 32)
    y = torch.randint(0, 10, (batch,))
    seconds = []
    for step in range(steps + 5):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss_of(net(x), y).backward()
        optimizer.step()
        if step >= 5:
            seconds.append(time.perf_counter() - begin)
    if rank == 0:
        with open(result, "w", encoding="utf-8") as file:
            json.dump(statistics.median(seconds), file)
    torch.distributed.destroy_process_group()


def torch_step(options, case, steps):
    import torch

    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        result = os.path.join(folder, "result.json")
        torch.multiprocessing.spawn(torch_rank, (options, case, steps, port, result), nprocs=options.ranks)
        with open(result, encoding="utf-8") as file:
            return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of {', '.join(CASES)} (default: all)")
    parser.add_argument("--brim", default="build/bin/brim", help="the command (default: %(default)s)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each rank (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=file_name, help="write all numbers to a file")
    options = parser.parse_args()
    for case in options.cases:
        if case not in CASES:
            fail(f"there is no case {case}; there are {', '.join(CASES)}")
    report = {"ranks": options.ranks, "threads": options.threads, "cases": {}}
    for case in options.cases or CASES:
        steps = {"tutorial-cnn": (3000, 300), "resnet18-cifar": (20, 10)}[case]
        sides = {
            "brim": functools.partial(brim_step, options, case, steps[0]),
            "torch": functools.partial(torch_step, options, case, steps[1]),
        }
        rounds = alternate(sides, options.rounds)
        times = ratios(rounds, "torch", "brim")
        report["cases"][case] = {"rounds": rounds, "ratios": times}
        brim, torch = medians(rounds, "brim", "torch")
        print(
            f"{case}: brim {brim * 1e3:.3f} ms a step, PyTorch DDP (Gloo) {torch * 1e3:.3f} ms: "
            f"{statistics.median(times):.2f} times as fast ({min(times):.2f} to {max(times):.2f})",
            flush=True,
        )
    if options.json:
        write_text(options.json, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
