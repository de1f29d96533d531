#!/usr/bin/env python3
"""A process that opens a model and runs it: once.py SIDE ABOUT BATCH THREADS RUNS [ISA].

ABOUT: a JSON file of models.prepare(). SIDE "python" opens nothing: what Python and NumPy alone take. Prints a line after
the first result and one at the end, or why the side cannot run the model.
"""

import json
import os
import sys
import time

BEGIN = time.perf_counter()
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def peak_resident():
    """The largest resident set of this process so far, in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def libraries():
    """The shared objects that are mapped, but Python's own."""
    own = os.path.join(sys.base_prefix, "lib")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6}
    return sorted(path for path in paths if ".so" in os.path.basename(path) and not path.startswith(own))


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    side, path, batch, threads, runs = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    isa = sys.argv[6] if len(sys.argv) > 6 else None
    from compare.deploy import models, sides

    with open(path, encoding="utf-8") as file:
        about = json.load(file)
    x, y = models.load_samples(about, batch)
    if side == "python":
        print("{}", file=answers)
        print(json.dumps({"peak_rss": peak_resident(), "libraries": libraries()}), file=answers)
        return
    package = sides.PACKAGES.get(side)
    __import__(package) if package else sides.brim_rt().library()
    imported = time.perf_counter()
    # Compiling takes PyTorch seconds to minutes: it starts eagerly.
    opener = sides.open_torch_eager if side == "torch" else sides.SIDES[side]
    try:
        runner = opener(about, x, y, threads, isa)
    except sides.Absent as error:
        print(json.dumps({"absent": str(error)}), "{}", sep="\n", file=answers)
        return
    runner.call()
    first = time.perf_counter()
    print(json.dumps({"import_s": imported - BEGIN, "file_to_result_s": first - imported}), file=answers, flush=True)
    for _ in range(runs - 1):
        runner.call()
    print(json.dumps({"peak_rss": peak_resident(), "libraries": libraries()}), file=answers, flush=True)


if __name__ == "__main__":
    main()
