#!/usr/bin/env python3
"""What PyTorch does on the first GPU, for tools/gpu_check.sh: microseconds of the steps that `brim bench --device`
times under the same names. All data lies on the device; SGD with momentum as brim's.

    gpu_torch.py [--json FILE] [--device cuda] [--seconds 0.5] [--budget 90] [--only WORD] [--small] [--compile]

A step is timed as brim's are: blocks of 20 ms are queued at once, the host waits at their ends only, and the median
block counts. Networks run as their users write them (eager), with the fused optimizer (fused), and as one CUDA graph
of forward, backward and optimizer (graph), which is given the same batch again and again: PyTorch's best case, since
a user's batch would have to be copied into it. The file is written after each case, so that what was measured stays
if time runs out. --compile adds torch.compile, which takes minutes.
"""
import argparse
import json
import math
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare.files import file_name, write_text
from compare.networks import LEARNING_RATE, MOMENTUM, TutorialNet

BLOCK_SECONDS, WARM_UP_SECONDS = 20e-3, 0.2


class Block(nn.Module):
    """relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x))"""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False),
                                            nn.BatchNorm2d(channels))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)), inplace=True)


def resnet18(side):
    """torchvision's network, which need not be installed; for 32x32 with a 3x3 stem and ten classes."""
    small = side == 32
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False) if small else nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    if not small:
        stem.append(nn.MaxPool2d(3, 2, 1))
    blocks, channels_in = [], 64
    for channels in (64, 128, 256, 512):
        stride = 1 if channels == 64 else 2
        blocks += [Block(channels_in, channels, stride), Block(channels, channels, 1)]
        channels_in = channels
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10 if small else 1000))


class Bench:
    """Times steps on one device."""

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
        return sorted(samples)[len(samples) // 2]

    def training(self, make, sample, batch, classes, batches, dtype=None, fused=False, one_batch=False, compiled=False):
        """A training step that takes the next batch, or always the first one."""
        torch.manual_seed(0)
        network = make().to(self.device)
        data = [(torch.rand(batch, *sample, device=self.device) * 2 - 1,
                 torch.randint(0, classes, (batch,), device=self.device)) for _ in range(batches)]
        if dtype is not None:
            network = network.to(memory_format=torch.channels_last)
            data = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in data]
        optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM,
                                    **({"fused": True} if fused else {}))
        call = torch.compile(network, dynamic=False) if compiled else network
        at = 0

        def step():
            nonlocal at
            x, y = data[at]
            at = 0 if one_batch else (at + 1) % len(data)
            optimizer.zero_grad()
            # A capture must not keep casts of weights from one replay to the next.
            with torch.autocast(self.device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None,
                                cache_enabled=not one_batch):
                loss = functional.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()

        return step

    def captured(self, step):
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
        return graph.replay


def cases_of(bench, small, with_compile):
    """(name, function that returns microseconds), the most important first."""
    def network(name, variants, *arguments, **options):
        for variant in variants:
            def run(variant=variant):
                step = bench.training(*arguments, fused=variant != "eager", one_batch=variant == "graph",
                                      compiled=variant == "compile", **options)
                return bench.microseconds(bench.captured(step) if variant == "graph" else step)
            yield f"{name}-{variant}", run

    variants = ["eager", "fused"] + (["graph"] if bench.is_cuda else []) + (["compile"] if with_compile else [])

    def tutorial(batch):
        return network(f"tutorial-b{batch}", variants, TutorialNet, (3, 32, 32), batch, 10, 16)

    def resnet(side, batch):
        return network(f"resnet18-{side}-b{batch}-bf16", variants, lambda: resnet18(side), (3, side, side), batch,
                       10 if side == 32 else 1000, 2, dtype=torch.bfloat16)

    n, elements = (256, 1 << 16) if small else (8192, 1 << 26)

    def matmul(dtype, precision="highest"):
        torch.set_float32_matmul_precision(precision)
        a, b = (torch.rand(n, n, device=bench.device).to(dtype) for _ in range(2))
        result = bench.microseconds(lambda: a @ b)
        torch.set_float32_matmul_precision("highest")
        return result

    def memory(copy):
        x, y, z = (torch.rand(elements, device=bench.device) for _ in range(3))
        return bench.microseconds((lambda: z.copy_(x)) if copy else (lambda: torch.add(x, y)))

    yield from tutorial(4)
    yield f"matmul-{n}-bf16", lambda: matmul(torch.bfloat16)
    yield "add-64m", lambda: memory(copy=False)
    yield "copy-64m", lambda: memory(copy=True)
    yield from resnet(32, 4 if small else 512)
    yield from resnet(224, 1 if small else 128)
    yield f"matmul-{n}-fp16", lambda: matmul(torch.float16)
    yield f"matmul-{n}-fp32", lambda: matmul(torch.float32)
    if bench.is_cuda:
        yield f"matmul-{n}-tf32", lambda: matmul(torch.float32, "high")
    yield from tutorial(32)
    yield from tutorial(128)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=file_name)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a measurement")
    parser.add_argument("--budget", type=float, default=math.inf, help="no case begins after so many seconds")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--small", action="store_true", help="small sizes, to test this script")
    parser.add_argument("--compile", action="store_true", help="torch.compile, too")
    options = parser.parse_args()
    began = time.perf_counter()
    device = torch.device(options.device)
    torch.backends.cudnn.allow_tf32 = False  # brim computes fp32 in full, too
    torch.backends.cudnn.benchmark = True
    bench = Bench(device, options.seconds)
    result = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
              "device": torch.cuda.get_device_name(device) if bench.is_cuda else "cpu",
              "us_per_step": {}, "failed": {}, "left_out": []}

    def save():
        if options.json:
            write_text(options.json, json.dumps(result, indent=1) + "\n")

    for name, run in cases_of(bench, options.small, options.compile):
        if options.only not in name:
            continue
        if time.perf_counter() - began > options.budget:
            result["left_out"].append(name)
            continue
        try:
            result["us_per_step"][name] = run()
            print(f"{name:<28}{result['us_per_step'][name]:>14.2f} us", flush=True)
        except RuntimeError as error:
            result["failed"][name] = str(error).splitlines()[0]
            print(f"{name:<28} failed: {result['failed'][name]}", flush=True)
        if bench.is_cuda:
            torch.cuda.empty_cache()
        save()
    save()
    print(f"{len(result['us_per_step'])} cases timed, {len(result['failed'])} failed, "
          f"{len(result['left_out'])} left out for lack of time")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
