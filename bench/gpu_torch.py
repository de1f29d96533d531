#!/usr/bin/env python3
"""PyTorch and brim in turns on the first GPU, for tools/gpu_check.sh: microseconds of the same steps and ops.

    gpu_torch.py [--brim PROGRAM] [--rounds 3] [--json FILE] [--device cuda] [--seconds 0.4] [--budget 240]
                 [--only WORD] [--small] [--compile]

A round times each way of PyTorch once, and with --brim each of `brim bench`'s, too; the median of the rounds counts, and
of a ratio the median of the rounds' ratios. A step is timed as brim's are: blocks of 20 ms are queued at once, the host
waits at their ends only, and the median block counts. Networks run as their users write them (eager), with the fused
optimizer (fused), as one CUDA graph of batch selection, forward, backward and optimizer (graph), and by torch.compile
(compile, which takes minutes: only with --compile). All data lies on the device, and both sides take the next batch of
it as their users would: eager steps from a list of the host's, graphs by an index on the device. The file is written
after each round of a case, so that what was measured stays if time runs out.
"""
import argparse
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import torch
from torch.nn import functional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare.files import file_name, write_text
from compare.networks import LEARNING_RATE, MOMENTUM, TutorialNet
from compare.resnet import resnet

BLOCK_SECONDS, WARM_UP_SECONDS = 20e-3, 0.2


@dataclasses.dataclass
class Case:
    """What is timed: `torch` makes, by the name of a way, a function that does it once, and `brim` has the arguments of
    `brim bench` by the name of a way."""

    name: str
    torch: dict[str, Callable]
    brim: dict[str, list]


class Bench:
    """Makes and times steps on one device."""

    def __init__(self, device, seconds):
        self.device, self.seconds = device, seconds
        self.is_cuda = device.type == "cuda"

    def wait(self):
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def block(self, step, count):
        began = time.perf_counter()
        for _ in range(count):
            step()
        self.wait()
        return time.perf_counter() - began

    def microseconds(self, step):
        """Of one step: the median over blocks."""
        self.block(step, 3)
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_UP_SECONDS:
            self.block(step, 1)
        count = 1
        while (took := self.block(step, count)) < BLOCK_SECONDS / 8:
            count *= 4
        count = max(1, round(BLOCK_SECONDS / took * count))
        samples, end = [], time.perf_counter() + self.seconds
        while time.perf_counter() < end or len(samples) < 5:
            samples.append(self.block(step, count) / count * 1e6)
        return statistics.median(samples)

    def training(self, way, make, sample, batch, classes, batches, dtype=None):
        """A training step."""
        torch.manual_seed(0)
        network = make().to(self.device)
        x_all = torch.rand(batches, batch, *sample, device=self.device) * 2 - 1
        y_all = torch.randint(0, classes, (batches, batch), device=self.device)
        is_graph = way == "graph"
        take = self.by_index if is_graph else self.by_list
        if dtype is None:
            take = take(x_all, y_all)
        else:
            network = network.to(memory_format=torch.channels_last)
            take = take(x_all.permute(0, 1, 3, 4, 2).contiguous(), y_all, lambda x: x.permute(0, 3, 1, 2))
        optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM,
                                    **({} if way == "eager" else {"fused": True}))
        call = torch.compile(network, dynamic=False) if way == "compile" else network

        def step():
            x, y = take()
            optimizer.zero_grad()
            # A capture must not keep casts of weights from one replay to the next.
            with torch.autocast(self.device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None,
                                cache_enabled=not is_graph):
                loss = functional.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()

        return self.captured(step) if is_graph else step

    @staticmethod
    def by_list(x_all, y_all, seen=lambda x: x):
        """Takes batches in turns, as the host says; `seen` is the view that the network gets."""
        data, at = [(seen(x), y) for x, y in zip(x_all, y_all)], -1

        def take():
            nonlocal at
            at = (at + 1) % len(data)
            return data[at]

        return take

    @staticmethod
    def by_index(x_all, y_all, seen=lambda x: x):
        """The same, as a number on the device says."""
        at = torch.zeros(1, dtype=torch.int64, device=y_all.device)

        def take():
            x, y = x_all.index_select(0, at)[0], y_all.index_select(0, at)[0]
            at.add_(1).remainder_(len(y_all))
            return seen(x), y

        return take

    @staticmethod
    def captured(step):
        """`step` as one CUDA graph."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()

        def replay(held=step):  # with the tensors outside of the graph's own memory that it reads
            graph.replay()

        return replay


def cases_of(bench, small, with_compile):
    """The most important first."""
    ways = ["eager", "fused"] + (["graph"] if bench.is_cuda else []) + (["compile"] if with_compile else [])

    def network(name, make, sample, batch, classes, batches, brim, dtype=None):
        return Case(name, {way: lambda way=way: bench.training(way, make, sample, batch, classes, batches, dtype)
                           for way in ways}, brim)

    def tutorial(batch):
        case = f"tutorial-b{batch}"
        return network(case, TutorialNet, (3, 32, 32), batch, 10, 16,
                       {"eager": [case], "compiled": [case, "--mode", "compiled", "--steps-per-graph", "100"]})

    def resnets(depth, side, batch):
        case = f"resnet{depth}-{side}-b{batch}"
        if small:
            batch = 2
        return network(f"{case}-bf16", lambda: resnet(depth, side), (3, side, side), batch, 10 if side == 32 else 1000, 2,
                       {"compiled": [case, "--mode", "compiled", "--precision", "bf16"]}, torch.bfloat16)

    n, elements = (256, 1 << 16) if small else (8192, 1 << 26)

    def matmul(precision):
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)

        def make():
            a, b = (torch.rand(n, n, device=bench.device).to(dtype) for _ in range(2))
            allowed = "high" if precision == "tf32" else "highest"

            def product():
                torch.set_float32_matmul_precision(allowed)
                return a @ b

            return product

        return Case(f"matmul-8192-{precision}", {"eager": make}, {"eager": ["matmul-8192", "--precision", precision]})

    def add():
        x, y = (torch.rand(elements, device=bench.device) for _ in range(2))
        return lambda: torch.add(x, y)

    yield tutorial(4)
    yield matmul("bf16")
    yield Case("add-64m", {"eager": add}, {"eager": ["add-64m"]})
    yield resnets(50, 224, 128)
    yield resnets(18, 224, 128)
    yield resnets(18, 32, 512)
    for precision in ("fp16", "fp32") + (("tf32",) if bench.is_cuda else ()):
        yield matmul(precision)
    yield tutorial(32)
    yield tutorial(128)


class Brim:
    """`brim bench` on the device with the same index."""

    def __init__(self, program, device, seconds):
        self.program, self.seconds = program, seconds
        self.device = "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"

    def microseconds(self, arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            ran = subprocess.run([self.program, "bench", *arguments, "--device", self.device, "--rounds", "1",
                                  "--seconds", str(self.seconds), "--json", path], capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                raise RuntimeError((ran.stderr.strip() or f"exit code {ran.returncode}").splitlines()[-1])
            with open(path) as file:
                return json.load(file)["us_per_step"]


class Record:
    """What was measured, and the file of it."""

    def __init__(self, options, device):
        self.path = options.json
        self.times = {}  # by "case-way" and "case-brim-way": a number a round, None where it failed
        self.result = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                       "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
                       "us_per_step": {}, "ratios": {}, "least_ratios": {}, "largest_ratios": {}, "failed": {}, "left_out": []}

    def add(self, name, measure):
        rounds = self.times.setdefault(name, [])
        if name in self.result["failed"]:
            return
        try:
            rounds.append(measure())
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            self.result["failed"][name] = (str(error) or type(error).__name__).splitlines()[0]
            print(f"{name:<40} failed: {self.result['failed'][name]}", flush=True)
            return
        self.result["us_per_step"][name] = statistics.median(rounds)

    def compare(self, case):
        """PyTorch's time over brim's, for each pair of ways."""
        for brim_way in case.brim:
            for way in case.torch:
                ours, theirs = self.times.get(f"{case.name}-brim-{brim_way}"), self.times.get(f"{case.name}-{way}")
                if ratios := [their / our for our, their in zip(ours or [], theirs or [])]:
                    name = f"{case.name}-{brim_way}-over-{way}"
                    self.result["ratios"][name] = statistics.median(ratios)
                    self.result["least_ratios"][name] = min(ratios)
                    self.result["largest_ratios"][name] = max(ratios)

    def print(self, case):
        for name, rounds in self.times.items():
            if rounds and name.startswith(case.name + "-"):
                print(f"{name:<40}{statistics.median(rounds):>14.2f} us  {min(rounds):.2f} to {max(rounds):.2f}", flush=True)
        for name, ratio in self.result["ratios"].items():
            if name.startswith(case.name + "-"):
                print(f"{name:<40}{ratio:>14.3f}", flush=True)

    def save(self):
        if self.path:
            write_text(self.path, json.dumps(self.result, indent=1) + "\n")


def run_case(bench, brim, case, rounds, record):
    steps = {}
    for _ in range(rounds):
        for way, make in case.torch.items():
            def measure(way=way, make=make):
                if way not in steps:
                    steps[way] = make()
                return bench.microseconds(steps[way])
            record.add(f"{case.name}-{way}", measure)
        for way, arguments in case.brim.items() if brim else ():
            if bench.is_cuda:
                torch.cuda.empty_cache()  # brim is another process on the same card
            record.add(f"{case.name}-brim-{way}", lambda arguments=arguments: brim.microseconds(arguments))
        record.compare(case)
        record.save()
    record.print(case)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brim", metavar="PROGRAM", help="brim's command, to be timed in turns")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=file_name)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a measurement")
    parser.add_argument("--budget", type=float, default=math.inf, help="no case begins after so many seconds")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--small", action="store_true", help="small sizes on PyTorch's side, to test this script")
    parser.add_argument("--compile", action="store_true", help="torch.compile, too")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; use 1 or more")
    began = time.perf_counter()
    device = torch.device(options.device)
    torch.backends.cudnn.allow_tf32 = False  # brim computes fp32 in full, too
    torch.backends.cudnn.benchmark = True
    bench = Bench(device, options.seconds)
    brim = Brim(options.brim, device, options.seconds) if options.brim else None
    record = Record(options, device)
    for case in cases_of(bench, options.small, options.compile):
        if options.only not in case.name:
            continue
        if time.perf_counter() - began > options.budget:
            record.result["left_out"].append(case.name)
            continue
        run_case(bench, brim, case, options.rounds, record)
        if bench.is_cuda:
            torch.cuda.empty_cache()
    record.save()
    result = record.result
    print(f"{len(result['us_per_step'])} ways timed, {len(result['failed'])} failed, "
          f"{len(result['left_out'])} cases left out for lack of time")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
