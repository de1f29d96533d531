#!/usr/bin/env python3
"""tools/ncu_table.py: what it adds up, and what it says where ncu measured nothing."""
import os
import subprocess
import sys
import tempfile

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/ncu_table.py")
HEAD = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
METRICS = ("gpu__time_duration.sum", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
           "sm__throughput.avg.pct_of_peak_sustained_elapsed")


def rows(number, kernel, *values):
    return "".join(f'"{number}","7","{kernel}","{metric}","unit","{value}"\n' for metric, value in zip(METRICS, values))


def run(text, *options):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(text)
        file.flush()
        return subprocess.run([sys.executable, TABLE, *options, file.name], capture_output=True, text=True, timeout=50)


def main():
    text = "==PROF== Connected to process 7\nbrim says something\n" + HEAD + (
        rows(0, "void brim::cuda::softmax_kernel<float>(const float *, int)", "1,000", "90.5", "10") +
        rows(1, "void brim::cuda::softmax_kernel<float>(const float *, int)", "3000", "50.5", "30") +
        rows(2, "void brim::cuda::<unnamed>::copy_kernel(int)", "16000", "80", "5") +
        rows(3, "small(int)", "500", "1", "1"))
    ran = run(text, "--most", "2")
    assert ran.returncode == 0, ran
    lines = ran.stdout.splitlines()
    assert len(lines) == 4, ran.stdout
    assert lines[1].split() == ["copy_kernel", "1", "16.00", "78.0%", "80.0%", "5.0%"], ran.stdout
    assert lines[2].split() == ["softmax_kernel<float>", "2", "4.00", "19.5%", "60.5%", "25.0%"], ran.stdout
    assert lines[3] == "4 launches of 3 kernels, 20.50 us", ran.stdout
    # A metric that is not there, and a row that was cut off.
    ran = run(HEAD + rows(0, "small(int)", "500", "n/a", "1") + '"1","7","small(int)","gpu__time_duration.sum"\n')
    assert ran.returncode == 0 and ran.stdout.endswith("1 launches of 1 kernels, 0.50 us\n"), ran
    for nothing, why in (("", "ncu says no more"), ("==ERROR== ERR_NVGPUCTRPERM: no\n", "==ERROR== ERR_NVGPUCTRPERM: no"),
                         (HEAD, "ncu says no more")):
        ran = run(nothing)
        assert ran.returncode == 1 and f"no kernel with gpu__time_duration.sum: {why}" in ran.stderr, ran


if __name__ == "__main__":
    main()
