#!/usr/bin/env python3
"""What CUDA kernels take of a multiprocessor, from what `nvcc -Xptxas=-v` printed, and whether it is within bounds.

    kernel_table.py [--csv FILE] [--bounds FILE] [--most 12] [--dynamic FILE LIBRARY] LOG

A row for each kernel and architecture: registers of a thread, bytes of its stack frame, bytes that are spilled (stores
and loads: registers that did not suffice, which costs memory accesses), static and dynamic shared memory of a block.
Dynamic shared memory is the launch's: FILE is what tests over the emulation LIBRARY wrote to BRIM_EMULATED_SHARED_LOG,
the most that they launched each kernel with; without it, and for kernels that they did not launch, it is 0. --csv gets
all rows; printed are those with most registers, with most shared memory, with a stack and with spills.

Bounds (tools/kernel_bounds.txt) are lines `registers stack shared pattern`: what the kernels whose names match the
pattern may take at most, of static and dynamic shared memory together; the last line that matches a kernel counts.
Nothing may spill. Exit code 1 if a kernel is beyond its bounds, or a line matches none.
"""
import argparse
import csv
import dataclasses
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")


@dataclasses.dataclass
class Kernel:
    name: str
    architecture: str
    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    dynamic: int = 0


def kernels_of(path):
    """By mangled name and architecture; a kernel that several files instantiate is the same in all."""
    kernels, at = {}, None
    with open(path, errors="replace") as file:
        for line in file:
            if entry := ENTRY.search(line):
                at = kernels.setdefault(entry.groups(), Kernel(*entry.groups()))
            elif at and (frame := FRAME.search(line)):
                at.stack, at.spill_stores, at.spill_loads = map(int, frame.groups())
            elif at and (used := USED.search(line)):
                at.registers, at.shared = int(used[1]), int(used[2] or 0)
                at = None
    return list(kernels.values())


def without_parameters(name):
    """A function's parameters follow from its template's arguments."""
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return name[:at] if name[at] == "(" else name
    return name


def demangled(names):
    found = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return [without_parameters(re.sub(r"\(anonymous namespace\)::|brim::(?:cuda::)?|^void ", "", name))
            for name in found.stdout.split("\n")]


def add_dynamic(kernels, path, library):
    """What the kernels were launched with."""
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout.splitlines()
    mangled = {int(parts[0], 16): parts[2] for line in symbols if len(parts := line.split()) == 3}
    most = {}
    with open(path) as file:
        for line in file:
            offset, size = line.split()
            if name := mangled.get(int(offset, 16)):
                most[name] = max(most.get(name, 0), int(size))
    by_name = dict(zip(demangled(most), most.values()))
    for kernel in kernels:
        kernel.dynamic = by_name.get(kernel.name, 0)
    print(f"{sum(kernel.name in by_name for kernel in kernels)} of {len(kernels)} kernels were launched by the tests")


def bounds_of(path):
    """(registers, stack, shared, pattern, text of the line)"""
    bounds = []
    with open(path) as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            try:
                registers, stack, shared, pattern = line.split(maxsplit=3)
                bounds.append((int(registers), int(stack), int(shared), re.compile(pattern), f"{path}:{number}: {line}"))
            except (ValueError, re.error) as error:
                sys.exit(f"kernel_table: {path}:{number}: '{line}' is no `registers stack shared pattern`: {error}")
    return bounds


def check(kernels, bounds):
    """Prints what is beyond its bounds; how many kernels and lines that is."""
    wrong, matched = 0, set()
    for kernel in kernels:
        registers, stack, shared = 0, 0, 0
        for *most, pattern, line in bounds:
            if pattern.search(kernel.name):
                registers, stack, shared = most
                matched.add(line)
        reasons = []
        if kernel.spill_stores or kernel.spill_loads:
            reasons.append(f"spills {kernel.spill_stores} and {kernel.spill_loads} bytes")
        if kernel.registers > registers:
            reasons.append(f"takes {kernel.registers} registers, {registers} at most")
        if kernel.stack > stack:
            reasons.append(f"has {kernel.stack} bytes on the stack, {stack} at most")
        if kernel.shared + kernel.dynamic > shared:
            reasons.append(f"takes {kernel.shared} + {kernel.dynamic} bytes of shared memory, {shared} at most")
        if reasons:
            wrong += 1
            print(f"BEYOND {kernel.architecture} {kernel.name}: {'; '.join(reasons)}")
    for *_, line in bounds:
        if line not in matched:
            wrong += 1
            print(f"UNUSED {line}: no kernel has such a name")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv")
    parser.add_argument("--bounds")
    parser.add_argument("--most", type=int, default=12, help="rows that are printed of each kind")
    parser.add_argument("--dynamic", nargs=2, metavar=("FILE", "LIBRARY"))
    parser.add_argument("log")
    options = parser.parse_args()
    kernels = kernels_of(options.log)
    if not kernels:
        sys.exit(f"kernel_table: {options.log} has no kernels; compile with nvcc -Xptxas=-v")
    if cut := next((kernel.name for kernel in kernels if not kernel.registers), None):
        sys.exit(f"kernel_table: {options.log} says nothing of the registers of {cut}; was it cut off?")
    for kernel, name in zip(kernels, demangled([kernel.name for kernel in kernels])):
        kernel.name = name
    if options.dynamic:
        add_dynamic(kernels, *options.dynamic)
    kernels.sort(key=lambda kernel: (kernel.name, kernel.architecture))
    fields = [field.name for field in dataclasses.fields(Kernel)]
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(fields)
            writer.writerows(dataclasses.astuple(kernel) for kernel in kernels)

    def rows(title, chosen):
        if not chosen:
            return
        print(f"{title:<6}{'registers':>10}{'stack':>7}{'spilled':>9}{'static':>8}{'dynamic':>9}  kernel")
        for k in chosen[:options.most]:
            print(f"{k.architecture:<6}{k.registers:>10}{k.stack:>7}{k.spill_stores + k.spill_loads:>9}{k.shared:>8}{k.dynamic:>9}  {k.name[:150]}")
        if len(chosen) > options.most:
            print(f"... and {len(chosen) - options.most} more")

    rows("spills", [k for k in kernels if k.spill_stores or k.spill_loads])
    rows("stack", sorted((k for k in kernels if k.stack), key=lambda k: -k.stack))
    rows("shared", sorted((k for k in kernels if k.shared + k.dynamic), key=lambda k: -k.shared - k.dynamic))
    rows("most", sorted(kernels, key=lambda k: -k.registers)[:options.most])
    wrong = check(kernels, bounds_of(options.bounds)) if options.bounds else 0
    print(f"{len(kernels)} kernels, {sum(bool(k.spill_stores or k.spill_loads) for k in kernels)} spill, "
          f"{sum(k.stack > 0 for k in kernels)} have a stack, {max(k.registers for k in kernels)} registers at most"
          + (f", {wrong} beyond their bounds" if options.bounds else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
