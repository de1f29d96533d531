"""What is seen from outside a process: the time from its start to the end of its first training step, and its peak
memory. Both sides run in processes of their own; PyTorch's time includes `import torch`."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from compare.command import fail
from compare.variants import COMPILE, EAGER

MEMORY_STEPS = 5
BRIM_MODES = ("eager", "compiled")


def torch_words(case, variant, steps, threads):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_steps.py")
    return [sys.executable, script, case, variant.name, str(steps), str(threads)]


def seconds_to_first_output(words, environment=None):
    """From before the process starts until it writes, which it does after its first step."""
    begin = time.perf_counter()
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
    ) as process:
        wrote = process.stdout.read(1)
        seconds = time.perf_counter() - begin
        process.stdout.read()
    if not wrote or process.returncode != 0:
        return None
    return seconds


def startup(case, brim, threads, rounds):
    """Seconds from the start of the process to the end of the first step; None: it could not run. torch.compile is
    measured with an empty cache of compiled code and with the cache that this run filled."""
    ways = {f"brim {mode}": brim.words(case, "--mode", mode, "--steps", "1") for mode in BRIM_MODES}
    ways["torch eager"] = torch_words(case, EAGER, 1, threads)
    times = {way: [] for way in ways}
    for _ in range(rounds):
        for way, words in ways.items():
            times[way].append(seconds_to_first_output(words))
    result = {way: None if None in values else statistics.median(values) for way, values in times.items()}
    with tempfile.TemporaryDirectory() as cache:
        environment = {"TORCHINDUCTOR_CACHE_DIR": cache}
        words = torch_words(case, COMPILE, 1, threads)
        result["torch compile, first time"] = seconds_to_first_output(words, environment)
        result["torch compile, cached"] = seconds_to_first_output(words, environment)
    return {"case": case, "seconds": result}


def memory(case, brim, threads):
    """Peak resident bytes of a process that trains for some steps; None: it could not run."""
    result, tensors = {}, {}
    for mode in BRIM_MODES:
        record = brim.record(case, "--mode", mode, "--steps", str(MEMORY_STEPS))
        result[f"brim {mode}"], tensors[mode] = record["peak_rss"], record["peak_memory"]
    for variant in (EAGER, COMPILE):
        words = torch_words(case, variant, MEMORY_STEPS, threads)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        key = f"torch {variant.name}"
        if done.returncode == 0:
            result[key] = json.loads(done.stdout)["peak_rss"]
        elif variant is EAGER:
            fail(f"`{' '.join(words)}` ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        else:
            result[key] = None
    best = min(value for key, value in result.items() if key.startswith("torch") and value)
    return {
        "case": case,
        "steps": MEMORY_STEPS,
        "peak_rss": result,
        "brim_peak_of_tensors": tensors,
        "share_eager": result["brim eager"] / best,
        "share_compiled": result["brim compiled"] / best,
    }
