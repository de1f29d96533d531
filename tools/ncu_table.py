#!/usr/bin/env python3
"""The dearest kernels in what `ncu --csv` printed, with how near they come to what memory and units could do.

    ncu_table.py [--most 5] FILE

FILE is of `ncu --csv --print-units base` with the metrics gpu__time_duration.sum,
gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed and sm__throughput.avg.pct_of_peak_sustained_elapsed.
Launches of one kernel are added up; shares of peak are weighted by time. Under ncu each kernel runs alone with cold
caches, so a time here is not one of a step.
"""
import argparse
import csv
import re
import sys
from collections import defaultdict

TIME = "gpu__time_duration.sum"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
UNITS = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


def launches_of(lines):
    """{launch: {"kernel": name, metric: value}}"""
    # The program's own lines, and ncu's, stand before the table.
    lines = [line for line in lines if line.startswith('"')]
    launches = defaultdict(dict)
    for row in csv.DictReader(lines):
        if row.get("Metric Name") not in (TIME, MEMORY, UNITS):
            continue
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except (AttributeError, KeyError, ValueError):  # cut off, or n/a
            continue
        launch = launches[row["ID"]]
        launch["kernel"] = row["Kernel Name"]
        launch[row["Metric Name"]] = value
    return {key: launch for key, launch in launches.items() if TIME in launch}


def short(kernel):
    """Without its arguments and the namespaces of its name."""
    name = re.sub(r"^void ", "", re.sub(r"\(anonymous namespace\)|<unnamed>", "", kernel))
    return re.sub(r"^(?:\w*::)+", "", name.split("(")[0])[:70]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=5, help="kernels in the table")
    parser.add_argument("file")
    options = parser.parse_args()
    with open(options.file, newline="", errors="replace") as file:
        lines = file.readlines()
    launches = launches_of(lines)
    if not launches:
        error = next((line.strip() for line in lines if line.startswith("==ERROR==")), "ncu says no more")
        sys.exit(f"ncu_table: no kernel with {TIME}: {error}")
    kernels = defaultdict(list)
    for launch in launches.values():
        kernels[launch["kernel"]].append(launch)
    total = sum(launch[TIME] for launch in launches.values())

    def mean(group, metric):
        time = sum(launch[TIME] for launch in group)
        return sum(launch.get(metric, 0) * launch[TIME] for launch in group) / time if time else 0

    print(f"{'kernel':<70}{'launches':>9}{'us':>10}{'share':>7}{'memory':>8}{'units':>7}")
    dearest = sorted(kernels.items(), key=lambda item: -sum(launch[TIME] for launch in item[1]))[:options.most]
    for kernel, group in dearest:
        time = sum(launch[TIME] for launch in group)
        print(f"{short(kernel):<70}{len(group):>9}{time / 1e3:>10.2f}{time / total if total else 0:>7.1%}"
              f"{mean(group, MEMORY):>7.1f}%{mean(group, UNITS):>6.1f}%")
    print(f"{len(launches)} launches of {len(kernels)} kernels, {total / 1e3:.2f} us")


if __name__ == "__main__":
    main()
