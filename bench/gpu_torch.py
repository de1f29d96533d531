#!/usr/bin/env python3
"""What PyTorch does on the first GPU, for tools/gpu_check.sh: training steps of the tutorial network (eager and as a
CUDA graph), a bf16 matrix product and an addition over 256 MiB beside the copy bandwidth. Prints one JSON object.

    gpu_torch.py [--json FILE] [--device cuda] [--small]
"""
import argparse
import json
import sys
import time

import torch
from torch import nn


def seconds_each(device, run, seconds=0.5):
    """Median of five samples of the time of one run()."""
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    for _ in range(3):
        run()
    wait()
    began = time.perf_counter()
    run()
    wait()
    count = max(1, int(seconds / 5 / max(time.perf_counter() - began, 1e-6)))
    samples = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        samples.append((time.perf_counter() - began) / count)
    return sorted(samples)[2]


def tutorial_network():
    return nn.Sequential(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def training_step(device, batch):
    torch.manual_seed(0)
    net = tutorial_network().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    x = torch.randn(batch, 3, 32, 32, device=device)
    y = torch.randint(0, 10, (batch,), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


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
    return graph.replay


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="small sizes, to test this script")
    options = parser.parse_args()
    device = torch.device(options.device)
    n, elements = (256, 1 << 16) if options.small else (8192, 1 << 26)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    result = {"torch": torch.__version__, "cuda": torch.version.cuda, "steps_per_s": {}}
    for batch in (4, 128):
        step = training_step(device, batch)
        result["steps_per_s"][f"tutorial-b{batch}"] = 1 / seconds_each(device, step)
        if device.type == "cuda":
            graph = captured(training_step(device, batch))
            result["steps_per_s"][f"tutorial-b{batch}-graph"] = 1 / seconds_each(device, graph)
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    result["matmul_bf16_tflops"] = {"n": n, "rate": 2e-12 * n**3 / seconds_each(device, lambda: a @ b)}
    x, y, z = (torch.randn(elements, device=device) for _ in range(3))
    gigabytes = 4e-9 * elements
    result["add_gb_per_s"] = 3 * gigabytes / seconds_each(device, lambda: torch.add(x, y, out=z))
    result["copy_gb_per_s"] = 2 * gigabytes / seconds_each(device, lambda: z.copy_(x))

    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    steps = ", ".join(f"{name} {rate:.0f}" for name, rate in result["steps_per_s"].items())
    print(f"steps/s: {steps}; bf16 matmul {result['matmul_bf16_tflops']['rate']:.1f} TFLOP/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
