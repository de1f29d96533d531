#!/usr/bin/env python3
"""A process that trains a case with PyTorch: torch_steps.py CASE VARIANT STEPS THREADS.

Writes an empty line after the first step and a JSON object with its peak memory at the end.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def peak_resident():
    """The largest resident set of this process so far, in bytes."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main():
    name, variant_name, steps, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    import torch

    from compare.networks import training_cases
    from compare.variants import training_step, variants_of

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    case = training_cases()[name]
    variant = next(v for v in variants_of(case) if v.name == variant_name)
    step, _ = training_step(case, variant)
    step()
    print(flush=True)
    for _ in range(steps - 1):
        step()
    print(json.dumps({"peak_rss": peak_resident()}))


if __name__ == "__main__":
    main()
