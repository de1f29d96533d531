#!/usr/bin/env python3
"""Draws cases, lets brim compute them in child processes, and compares with PyTorch: see README.md.

    draws.py --runner build/tests/differential_run [--seed N] [--cases 15000] [--draw N] [--op NAME] [--jobs N]
    draws.py --store tests/differential/stored.safetensors

Exit code 1 when there is a mismatch, or the runner fails, 2 when there is nothing to compare, 77 (ctest: skipped) where there is no
PyTorch or no numpy.
"""

import argparse
import collections
import concurrent.futures
import datetime
import itertools
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SLICE = 250
SECONDS = 120  # of a child process for a slice
LOOK, CONFIRM = 2, 40  # samples of the tolerance (expect.py)
TRIES = 3000  # draws of an op to look for those to store


def drawn_ops():
    import cases  # noqa: F401, fills OPS
    from drawing import OPS

    return OPS


def make(seed, number, samples, **options):
    import cases  # noqa: F401, fills OPS
    import differences
    from drawing import Draw
    from expect import Expectation

    draw = Draw(seed, number, **options)
    expectation = Expectation(draw, samples)
    differences.apply(draw, expectation)
    return draw, expectation


def write(path, seed, numbers, samples):
    from expect import describe
    from storing import write_draws

    write_draws(path, (describe(*make(seed, number, samples), number) for number in numbers))


def modes_of(runner):
    """The modes that the runner will compute in, which it says at the end of a file without draws."""
    from storing import write_draws

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "none.safetensors")
        write_draws(path, [])
        child = subprocess.run([runner, path], capture_output=True, text=True, timeout=SECONDS)
    if child.returncode:
        raise ChildProcessError(f"{runner} ended with code {child.returncode}: {child.stderr.strip()}")
    return json.loads(child.stdout)["modes"]


def run(runner, path, numbers):
    """Mismatches of brim's: (number, mode, what, text). A draw that ends the process, or hangs, is one, too."""
    found, start = [], 0
    while start < len(numbers):
        with tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen([runner, path, "--from", str(start)], stdout=output, stderr=subprocess.PIPE, text=True)
            try:
                errors = child.communicate(timeout=SECONDS)[1]
                ended = f"ended with code {child.returncode}: {errors[-2000:]}"
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
                ended = f"hangs: no end after {SECONDS} s"
            output.seek(0)
            lines = [json.loads(line) for line in output if line.endswith("\n")]
        found += [(numbers[m["mismatch"]], m["mode"], m["what"], m["text"]) for m in lines if "mismatch" in m]
        if lines and "end" in lines[-1]:
            if child.returncode:
                raise ChildProcessError(f"{runner} {path}: after its last draw it {ended}")
            return found
        begun = [m for m in lines if "begin" in m]
        if not begun:
            raise ChildProcessError(f"{runner} {path}: {ended}")
        found.append((numbers[begun[-1]["begin"]], begun[-1]["mode"], "", ended))
        start = begun[-1]["begin"] + 1
    return found


def look(runner, seed, numbers):
    """Mismatches among these draws that remain when the tolerance is found with more samples."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "draws.safetensors")
        write(path, seed, numbers, LOOK)
        suspects = sorted({number for number, *_ in run(runner, path, numbers)})
        if not suspects:
            return []
        write(path, seed, suspects, CONFIRM)
        return run(runner, path, suspects)


def compares(expectation):
    """Whether most elements of each result are compared. Where none of them is a finite number, nothing more can be asked."""
    from expect import finite_share

    return all(finite_share(r) >= 0.75 or not bool(r.values.isfinite().any()) for r in expectation.stored())


def order_compared(expectation):
    """The order of the draw's derivatives, 0 where the last of them have no element to compare."""
    from expect import finite_share

    last = {1: expectation.g, 2: expectation.h}.get(expectation.order, ())
    return expectation.order if any(r.compared and r.values.numel() and finite_share(r) for r in last) else 0


def small(key, count, limit=12, largest=800):
    """The first small draws of an op that compare something, which do not depend on which others there are. The last ones are for
    the orders of derivatives that no other has."""
    import torch

    from expect import describe

    torch.set_num_threads(1)
    kept, missing = [], set(range(1, drawn_ops()[key].order + 1))
    for number in range(TRIES):
        if len(describe(*make(0, number, 0, limit=limit, key=key), 0)[1]) > largest:
            continue
        draw, expectation = make(0, number, CONFIRM, limit=limit, key=key)
        order = order_compared(expectation)
        if compares(expectation) and (count - len(kept) > len(missing) or order in missing):
            kept.append(describe(draw, expectation, 0))
            missing -= {order}
        if len(kept) == count:
            return kept
    raise ValueError(f"{key}: of {TRIES} draws, {len(kept)} can be stored; {count} are wanted, derivatives of orders {missing} among them")


def store(path, jobs, count=2000):
    """As many draws of each op."""
    from storing import write_draws

    keys = sorted(drawn_ops())
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        kept = [draw for part in pool.map(small, keys, [-(-count // len(keys))] * len(keys)) for draw in part]
    write_draws(path, (({**text, "id": i}, data) for i, (text, data) in enumerate(kept)))
    print(f"{path}: {len(kept)} draws, {os.path.getsize(path)} bytes")


def name_of(seed, number):
    draw, expectation = make(seed, number, 0)
    inputs = ", ".join(f"{str(t.dtype)[6:]}{list(t.shape)}{' ' + layout if layout else ''}" for t, layout in zip(draw.inputs, draw.layouts))
    refused = f"; PyTorch: {expectation.refused}" if expectation.refused else ""
    return draw.op.name, f"{draw.op.name}({inputs}; {json.dumps(draw.attrs)}), order {expectation.order}{refused}"


def show(seed, number):
    """A draw in full, for who runs it alone."""
    draw, expectation = make(seed, number, CONFIRM)
    print(name_of(seed, number)[1])
    for i, t in enumerate(draw.inputs):
        print(f"in {i}: {t.tolist()}")
    print(f"w: {[t.tolist() for t in expectation.w]}\nv: {[t.tolist() for t in expectation.v]}")
    if expectation.refused:
        print(f"PyTorch refuses: {expectation.refused}")
    for name in "ygh":
        for i, result in enumerate(getattr(expectation, name)):
            tolerance = "exactly" if result.tolerance is None else result.tolerance.tolist()
            print(f"{name}{i}: {result.values.tolist()}\n    tolerance {tolerance}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--runner", help="the program differential_run")
    chosen.add_argument("--store", metavar="FILE", help="write the stored draws instead")
    parser.add_argument("--seed", type=int, default=int(datetime.date.today().strftime("%Y%m%d")), help="default: the day")
    parser.add_argument("--cases", type=int, default=15000)
    parser.add_argument("--draw", type=int, help="this one alone, shown in full")
    parser.add_argument("--op", help="only draws of this op")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    try:
        import numpy  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        print(f"{sys.executable}: {error}: skipped")
        return 77
    if arguments.store:
        store(arguments.store, arguments.jobs)
        return 0
    begin, seed = time.monotonic(), arguments.seed
    runner = str(pathlib.Path(arguments.runner).resolve())
    try:
        modes = modes_of(runner)
    except ChildProcessError as error:
        sys.exit(str(error))
    numbers = list(range(arguments.cases)) if arguments.draw is None else [arguments.draw]
    if arguments.op:
        names = sorted({op.name for op in drawn_ops().values()})
        if arguments.op not in names:
            parser.error(f"--op {arguments.op} is not drawn; these are: {' '.join(names)}")
        numbers = [n for n in numbers if make(seed, n, 0)[0].op.name == arguments.op]
    if not numbers:
        parser.error("there is no such draw: nothing would be compared; give more --cases, or another --draw or --op")
    if arguments.draw is not None:
        show(seed, arguments.draw)
    os.environ["OMP_NUM_THREADS"] = "1"
    slices = [numbers[i : i + SLICE] for i in range(0, len(numbers), SLICE)]
    counts = collections.Counter()
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(look, [runner] * len(slices), [seed] * len(slices), slices):
            for number, mismatches in itertools.groupby(found, lambda m: m[0]):
                op, described = name_of(seed, number)
                counts[op] += 1
                print(f"draw {number}: {described}")
                for _, mode, what, text in mismatches:
                    print(f"    {mode} {what}: {text}")
                print(f"    alone: {sys.executable} {sys.argv[0]} --runner {arguments.runner} --seed {seed} --draw {number}", flush=True)
    print(f"seed {seed}: {len(numbers)} cases ({', '.join(modes)}) in {time.monotonic() - begin:.0f} s, {counts.total()} with mismatches"
          + (f": {', '.join(f'{op} {n}' for op, n in counts.most_common())}" if counts else ""))
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
