"""Time per step, brim and PyTorch in alternating rounds.

A sample is a block of consecutive steps that lasts at least a millisecond; a round's figure is the median sample, in
microseconds per step. Ratios are taken inside each round, so a change of the machine's speed meets both sides; their
median and range over the rounds are reported, and the ratio of the fastest rounds, which other work on the machine
disturbs least.
"""

import statistics

import torch

from compare.busy import Watch
from compare.measure import measure
from compare.ops import op_cases
from compare.variants import training_step, variants_of

BRIM_MODES = ("eager", "compiled")


def builders(training, name):
    """{variant's name: builder of the step} of a case."""
    if name in training:
        case = training[name]
        return {v.name: lambda v=v: training_step(case, v)[0] for v in variants_of(case)}
    return op_cases()[name]


def warm_steps(variants):
    """Builds the steps and runs each once, which compiles it. -> (steps, {variant: why it cannot run})"""
    steps, missing = {}, {}
    torch._dynamo.reset()
    for variant, build in variants.items():
        try:
            step = build()
            step()
            steps[variant] = step
        except Exception as error:  # pylint: disable=broad-except
            # torch.compile fails in many ways, a missing C++ compiler for one; eager must not.
            if variant.startswith("eager"):
                raise
            missing[variant] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return steps, missing


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratio(over, under):
    """over / under, round by round."""
    result = summary([a / b for a, b in zip(over, under)])
    result["of_minima"] = min(over) / min(under)
    return result


def best_of(wall, names):
    return min(names, key=lambda name: statistics.median(wall[name]))


def compare_case(name, training, brim, rounds, seconds):
    """Wall and CPU time of every way to run the case; `brim` may be None."""
    steps, missing = warm_steps(builders(training, name))
    modes = [] if brim is None else [m for m in BRIM_MODES if m == "eager" or name != "add-16-grad"]
    keys = [*(f"torch {v}" for v in steps), *(f"brim {m}" for m in modes)]
    wall, cpu = {key: [] for key in keys}, {key: [] for key in keys}
    records = {}

    def run_torch():
        for variant, step in steps.items():
            us, cpu_us = measure(step, seconds)
            wall[f"torch {variant}"].append(us)
            cpu[f"torch {variant}"].append(cpu_us)

    def run_brim():
        for mode in modes:
            record = brim.record(name, "--mode", mode, "--rounds", "1", "--seconds", str(seconds))
            wall[f"brim {mode}"].append(record["us_per_step"])
            cpu[f"brim {mode}"].append(record["cpu_us_per_step"])
            records[mode] = record

    watch = Watch()
    for turn in range(rounds):
        for side in (run_brim, run_torch) if turn % 2 == 0 else (run_torch, run_brim):
            side()

    torch_keys = [key for key in keys if key.startswith("torch")]
    best = best_of(wall, torch_keys)
    result = {
        "case": name,
        "us_per_step": {key: summary(wall[key]) for key in keys},
        "cpu_us_per_step": {key: summary(cpu[key]) for key in keys},
        "torch_best": best,
        "torch_eager_best": best_of(wall, [key for key in torch_keys if key.startswith("torch eager")]),
        "missing": missing,
        "others_share_of_cpus": watch.share_of_others(),
        "brim": records,
    }
    compiling = [key for key in torch_keys if key.startswith("torch compile")]
    if compiling:
        result["torch_compile_best"] = best_of(wall, compiling)
    for mode in modes:
        result[f"speedup_{mode}"] = ratio(wall[best], wall[f"brim {mode}"])
        result[f"speedup_{mode}_over_eager"] = ratio(wall["torch eager"], wall[f"brim {mode}"])
        result[f"cpu_ratio_{mode}"] = ratio(cpu[best], cpu[f"brim {mode}"])
    return result
