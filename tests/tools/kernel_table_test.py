#!/usr/bin/env python3
"""tools/kernel_table.py: what it reads of ptxas's words, and what it finds beyond its bounds."""
import csv
import os
import subprocess
import sys
import tempfile

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/kernel_table.py")


def entry(name, registers, stack=0, stores=0, loads=0, shared=None):
    used = f"Used {registers} registers, used 1 barriers" + (f", {shared} bytes smem" if shared else "") + ", 400 bytes cmem[0]"
    return (f"ptxas info    : Compiling entry function '{name}' for 'sm_90'\n"
            f"ptxas info    : Function properties for {name}\n"
            f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
            f"ptxas info    : {used}\n")


FINE = "_ZN4brim4cuda11copy_kernelIfEEvPKT_PS2_i"  # void brim::cuda::copy_kernel<float>(float const*, float*, int)
LOG = ("[1/2] Building CUDA object x.o\nptxas info    : 0 bytes gmem\n" + entry(FINE, 24, shared=1024) + entry(FINE, 24, shared=1024) +
       entry("_ZN4brim4cuda11trig_kernelEv", 40, stack=32) + "[2/2] Linking\n")


def run(folder, log, bounds, *options):
    with open(os.path.join(folder, "log"), "w") as file:
        file.write(log)
    with open(os.path.join(folder, "bounds"), "w") as file:
        file.write(bounds)
    return subprocess.run([sys.executable, TABLE, "--bounds", os.path.join(folder, "bounds"), *options, os.path.join(folder, "log")],
                          capture_output=True, text=True, timeout=50)


def main():
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "table.csv")
        bounds = "24 0 1024 .  # all\n40 32 0 ^trig_kernel # tables\n"
        ran = run(folder, LOG, bounds, "--csv", table)
        assert ran.returncode == 0, ran
        assert ran.stdout.splitlines()[-1] == ("2 kernels, 0 spill, 1 have a stack, 40 registers at most, 0 beyond their bounds"), ran.stdout
        with open(table, newline="") as file:
            assert list(csv.reader(file)) == [
                ["name", "architecture", "registers", "stack", "spill_stores", "spill_loads", "shared", "dynamic"],
                ["copy_kernel<float>", "sm_90", "24", "0", "0", "0", "1024", "0"],
                ["trig_kernel", "sm_90", "40", "32", "0", "0", "0", "0"]]
        for log, said in ((LOG + entry("_ZN4brim4cuda10big_kernelEv", 25), "BEYOND sm_90 big_kernel: takes 25 registers, 24 at most"),
                          (LOG + entry("_ZN4brim4cuda12stack_kernelEv", 8, stack=8), "stack_kernel: has 8 bytes on the stack, 0 at most"),
                          (LOG + entry("_ZN4brim4cuda13shared_kernelEv", 24, shared=1025),
                           "shared_kernel: takes 1025 + 0 bytes of shared memory, 1024 at most"),
                          (LOG + entry("_ZN4brim4cuda12spill_kernelEv", 24, 0, 4, 8), "spill_kernel: spills 4 and 8 bytes"),
                          (entry(FINE, 24), "bounds:2: 40 32 0 ^trig_kernel: no kernel has such a name")):
            ran = run(folder, log, bounds)
            assert ran.returncode == 1 and said in ran.stdout, ran
            assert ran.stdout.splitlines()[-1].endswith(" 1 beyond their bounds"), ran.stdout
        assert "has no kernels; compile with nvcc -Xptxas=-v" in run(folder, "nothing\n", bounds).stderr
        ran = run(folder, LOG + "".join(entry(FINE.replace("copy", "half"), 24).splitlines(True)[:2]), bounds)
        assert ran.returncode == 1 and "half_kernelIfEEvPKT_PS2_i; was it cut off?" in ran.stderr, ran
        for line in ("many 0 0 .\n", "24 0 0\n", "24 0 0 (\n"):
            ran = run(folder, LOG, "24 0 1024 .\n" + line)
            assert ran.returncode == 1 and "bounds:2: '" in ran.stderr, ran


if __name__ == "__main__":
    main()
