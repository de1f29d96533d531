#!/usr/bin/env python3
"""Compares brim's eager mode with PyTorch's (CPU) in one run, round by round.

Both sides do the same work on the same shapes with data in memory and the same number of threads. A sample is a
block of consecutive steps that lasts at least a millisecond; a round's figure is the median sample, in microseconds
per step. Rounds of the two sides alternate, so a change of the machine's speed meets both; the ratio is taken inside
each round, and its median and range over the rounds are reported. `of CPU` is the ratio of CPU time, which is steadier
on a machine that others use too.

PyTorch must be installed in the Python that runs this script; brim is run as `brim bench CASE --json -`.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

BLOCK_SECONDS = 1e-3
WARMUP_SECONDS = 0.3


def fail(message):
    print(f"compare_torch: {message}", file=sys.stderr)
    raise SystemExit(1)


def tutorial_step(torch, batch, channels_last=False, fused=False):
    """One training step of the PyTorch CIFAR-10 tutorial's network, data in memory."""
    from torch import nn, optim
    import torch.nn.functional as F

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 6, 5)
            self.pool = nn.MaxPool2d(2, 2)
            self.conv2 = nn.Conv2d(6, 16, 5)
            self.fc1 = nn.Linear(16 * 5 * 5, 120)
            self.fc2 = nn.Linear(120, 84)
            self.fc3 = nn.Linear(84, 10)

        def forward(self, x):
            x = self.pool(F.relu(self.conv1(x)))
            x = self.pool(F.relu(self.conv2(x)))
            x = torch.flatten(x, 1)
            x = F.relu(self.fc1(x))
            x = F.relu(self.fc2(x))
            return self.fc3(x)

    torch.manual_seed(0)
    net = Net()
    if channels_last:
        net = net.to(memory_format=torch.channels_last)
    criterion = nn.CrossEntropyLoss()
    options = {"fused": True} if fused else {}
    optimizer = optim.SGD(net.parameters(), lr=0.001, momentum=0.9, **options)
    batches = []
    for _ in range(16):
        x = torch.rand(batch, 3, 32, 32) * 2 - 1
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        batches.append((x, torch.randint(0, 10, (batch,))))
    index = 0

    def step():
        nonlocal index
        inputs, labels = batches[index]
        index = (index + 1) % len(batches)
        optimizer.zero_grad()
        loss = criterion(net(inputs), labels)
        loss.backward()
        optimizer.step()

    return step


def op_cases(torch):
    """Single operations: name -> function that builds the step."""
    import torch.nn.functional as F

    def binary16():
        a, b = torch.rand(16), torch.rand(16)
        return lambda: a + b

    def relu16():
        a = torch.rand(16)
        return lambda: torch.relu(a)

    def add16_grad():
        a, b = torch.rand(16, requires_grad=True), torch.rand(16)
        return lambda: a + b

    def matmul(n):
        a, b = torch.rand(n, n), torch.rand(n, n)
        return lambda: a @ b

    def conv():
        x, w = torch.rand(4, 64, 56, 56), torch.rand(64, 64, 3, 3)
        return lambda: F.conv2d(x, w, padding=1)

    def conv_train():
        x, w = torch.rand(4, 64, 56, 56, requires_grad=True), torch.rand(64, 64, 3, 3, requires_grad=True)
        g = torch.rand(4, 64, 56, 56)

        def step():
            x.grad = w.grad = None
            F.conv2d(x, w, padding=1).backward(g)

        return step

    def softmax():
        x = torch.rand(128, 1000)
        return lambda: torch.softmax(x, 1)

    def layer_norm():
        x, w, b = torch.rand(1024, 768), torch.rand(768), torch.rand(768)
        return lambda: F.layer_norm(x, (768,), w, b)

    def chain():
        a, b, c = torch.rand(1 << 18), torch.rand(1 << 18), torch.rand(1 << 18)
        return lambda: torch.sigmoid(torch.relu(a * b + c)) * a

    def total():
        x = torch.rand(1 << 20)
        return lambda: x.sum()

    return {
        "add-16": binary16,
        "add-16-grad": add16_grad,
        "relu-16": relu16,
        "matmul-256": lambda: matmul(256),
        "matmul-1024": lambda: matmul(1024),
        "conv-64x56x56": conv,
        "conv-64x56x56-train": conv_train,
        "softmax-128x1000": softmax,
        "layer-norm-1024x768": layer_norm,
        "chain-256k": chain,
        "sum-1m": total,
    }


def torch_cases(torch):
    """name -> {variant: builder}; `default` is the code that a user of PyTorch writes."""
    cases = {}
    for batch in (4, 128):
        cases[f"tutorial-b{batch}"] = {
            "default": lambda batch=batch: tutorial_step(torch, batch),
            "fused_sgd": lambda batch=batch: tutorial_step(torch, batch, fused=True),
            "channels_last": lambda batch=batch: tutorial_step(torch, batch, channels_last=True),
        }
    for name, builder in op_cases(torch).items():
        cases[name] = {"default": builder}
    return cases


def measure(step, seconds):
    """Microseconds per step: the median over blocks of at least BLOCK_SECONDS, and the mean CPU time."""
    begin = time.perf_counter()
    steps = 0
    while time.perf_counter() - begin < WARMUP_SECONDS or steps < 3:
        step()
        steps += 1
    block = max(1, round(BLOCK_SECONDS * steps / (time.perf_counter() - begin)))
    samples = []
    cpu = time.process_time()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples) < 5:
        start = time.perf_counter()
        for _ in range(block):
            step()
        samples.append((time.perf_counter() - start) / block * 1e6)
    cpu = (time.process_time() - cpu) / (len(samples) * block) * 1e6
    return statistics.median(samples), cpu


def brim_cases(brim):
    """Names of the cases that this build of brim can run."""
    done = subprocess.run([brim, "bench", "list"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"`{brim} bench list` ended with {done.returncode}: {done.stderr.strip()}")
    return {line.split()[0] for line in done.stdout.splitlines() if line.strip()}


def measure_brim(brim, case, threads, seconds):
    command = [
        brim,
        "bench",
        case,
        "--json",
        "-",
        "--threads",
        str(threads),
        "--rounds",
        "1",
        "--seconds",
        str(seconds),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
    try:
        record = json.loads(done.stdout)
        return float(record["us_per_step"]), float(record["cpu_us_per_step"]), record
    except (ValueError, KeyError, TypeError) as error:
        fail(f"`{' '.join(command)}` printed no JSON object with us_per_step ({error}): {done.stdout[:200]!r}")


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def compare_case(name, variants, options):
    """Wall and CPU time of every variant; the ratios are taken inside each round."""
    steps = {variant: build() for variant, build in variants.items()}
    wall = {variant: [] for variant in ("brim", *steps)}
    cpu = {variant: [] for variant in ("brim", *steps)}
    record = {}

    def note(variant, us, cpu_us):
        wall[variant].append(us)
        cpu[variant].append(cpu_us)

    def run_torch():
        for variant, step in steps.items():
            note(variant, *measure(step, options.seconds))

    def run_brim():
        nonlocal record
        if options.brim:
            us, cpu_us, record = measure_brim(options.brim, name, options.threads, options.seconds)
            note("brim", us, cpu_us)

    for turn in range(options.rounds):
        for side in (run_brim, run_torch) if turn % 2 == 0 else (run_torch, run_brim):
            side()

    best = min(steps, key=lambda v: statistics.median(wall[v]))
    result = {
        "case": name,
        "torch_us": {v: summary(wall[v]) for v in steps},
        "torch_cpu_us": {v: summary(cpu[v]) for v in steps},
        "torch_best": best,
    }
    if options.brim:
        result["brim_us"], result["brim_cpu_us"] = summary(wall["brim"]), summary(cpu["brim"])
        result["brim"] = record
        result["speedup"] = summary([t / b for t, b in zip(wall["default"], wall["brim"])])
        result["speedup_over_best"] = summary([t / b for t, b in zip(wall[best], wall["brim"])])
        result["cpu_ratio"] = summary([t / b for t, b in zip(cpu["default"], cpu["brim"])])
    return result


def show(result):
    default = result["torch_us"]["default"]
    line = f"{result['case']:<22}{default['median']:>12.2f}"
    if "brim_us" in result:
        ratio, best = result["speedup"], result["speedup_over_best"]
        line += f"{result['brim_us']['median']:>12.2f}{ratio['median']:>9.2f}"
        line += f"{result['cpu_ratio']['median']:>9.2f}   {ratio['min']:.2f}..{ratio['max']:.2f}"
        if result["torch_best"] != "default":
            line += f"   ({best['median']:.2f} against its {result['torch_best']})"
    else:
        line += f"   {default['min']:.2f}..{default['max']:.2f}"
        for variant, us in result["torch_us"].items():
            if variant != "default":
                line += f"   {variant} {us['median']:.2f}"
    print(line, flush=True)


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        return platform.processor()


def write_json(path, report):
    if path == "-":
        print(json.dumps(report))
        return
    temporary = f"{path}.tmp{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    os.replace(temporary, path)


def parse():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cases", nargs="*", help="cases to run (default: all; `--list` names them)")
    parser.add_argument("--json", metavar="FILE", help="write the report there (- for standard output)")
    parser.add_argument("--brim", default=os.path.join(root, "build", "bin", "brim"), help="brim's command")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of each side")
    parser.add_argument("--rounds", type=int, default=7, help="alternating rounds")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of one measurement")
    parser.add_argument("--torch-only", action="store_true", help="measure PyTorch alone")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    options = parser.parse_args()
    if options.threads < 1 or options.rounds < 1 or options.seconds <= 0:
        fail("--threads and --rounds must be at least 1, and --seconds above 0")
    if options.torch_only:
        options.brim = None
    elif not options.list and not os.access(options.brim, os.X_OK):
        fail(f"no command at {options.brim}; run `make build` first or name it with --brim PATH")
    return options


def main():
    options = parse()
    try:
        import torch
    except ImportError as error:
        fail(
            f"PyTorch is missing from {sys.executable} ({error}); install it into a virtual environment: "
            "python3 -m venv ~/venv-torch && ~/venv-torch/bin/pip install torch numpy, "
            "then run ~/venv-torch/bin/python bench/compare_torch.py"
        )
    cases = torch_cases(torch)
    if options.list:
        print("\n".join(cases))
        return
    unknown = [name for name in options.cases if name not in cases]
    if unknown:
        fail(f"no case named {unknown[0]!r}; there are: {', '.join(cases)}")

    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    print(f"PyTorch {torch.__version__} (CPU, eager), {options.threads} thread(s), {cpu_model()}")
    print(
        f"{'case':<22}{'torch us':>12}"
        + ("" if options.torch_only else f"{'brim us':>12}{'speedup':>9}{'of CPU':>9}   range")
    )
    results = []
    known = brim_cases(options.brim) if options.brim else set(cases)
    for name in options.cases or cases:
        if name not in known:
            print(f"{name:<22}  skipped: `brim bench list` has no such case", flush=True)
            continue
        results.append(compare_case(name, cases[name], options))
        show(results[-1])
    if options.json:
        report = {
            "torch": torch.__version__,
            "torch_config": torch.__config__.show(),
            "torch_parallel": torch.__config__.parallel_info(),
            "cpu": cpu_model(),
            "threads": options.threads,
            "rounds": options.rounds,
            "seconds": options.seconds,
            "load_average": os.getloadavg(),
            "results": results,
        }
        write_json(options.json, report)


if __name__ == "__main__":
    main()
