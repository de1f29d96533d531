"""Joules of the CPUs by RAPL, as src/diag/cpu_energy.cpp counts them: of all packages."""

import glob
import os

ROOT = "/sys/class/powercap"


def number(path):
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def packages(root=ROOT):
    """[(path of the counter, its range)]"""
    found = []
    for zone in sorted(glob.glob(os.path.join(root, "*"))):
        try:
            with open(os.path.join(zone, "name"), encoding="ascii") as file:
                is_package = file.read().startswith("package-")
        except OSError:
            continue
        reach, counter = number(os.path.join(zone, "max_energy_range_uj")), os.path.join(zone, "energy_uj")
        if is_package and reach and number(counter) is not None:
            found.append((counter, reach))
    return found


def read(root=ROOT):
    """{counter: (microjoules, its range)}; empty where there is no RAPL, or it is root's to read."""
    return {counter: (number(counter), reach) for counter, reach in packages(root)}


def since(before):
    """Joules since read(); None where nothing was read then or now."""
    total = 0
    for counter, (first, reach) in before.items():
        now = number(counter)
        if now is None:
            return None
        total += (now - first) % reach
    return total / 1e6 if before else None


def why_absent(root=ROOT):
    """In words, or None where it can be read."""
    if packages(root):
        return None
    return f"{root} has no RAPL counter of a package that can be read (a virtual machine, or root's alone)"
