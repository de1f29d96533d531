"""What is seen from outside: start-up, peak memory and sizes, in fresh processes."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare.command import fail
from compare.deploy import models
from compare.rounds import alternate

MEMORY_RUNS = 10  # of a process whose peak is taken
ONCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "once.py")


def run_once(side, about_path, batch, options):
    """A fresh process. -> its records, and "process_s": from before its start to its first result."""
    words = [sys.executable, ONCE, side, about_path, str(batch), str(options.threads), str(MEMORY_RUNS)]
    words += [options.isa] if options.isa else []
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            line = process.stdout.readline()
            seconds = time.perf_counter() - begin
            rest = process.stdout.read()
        if process.returncode != 0:
            errors.seek(0)
            last = errors.read().strip().splitlines()[-1:] or [""]
            fail(f"`{' '.join(words)}` ended with {process.returncode}: {last[0]}")
    return {"process_s": seconds} | json.loads(line) | json.loads(rest)


def stripped_bytes(path):
    """Without the symbols that a debugger wants, as packages ship libraries."""
    strip = shutil.which("strip")
    if strip is None:
        return os.path.getsize(path)
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "stripped")
        done = subprocess.run([strip, "-o", copy, path], capture_output=True, check=False)
        return os.path.getsize(copy if done.returncode == 0 else path)


def compare(about, batch, options, there):
    """-> for each side that runs the model: medians of the seconds, the peak, and bytes of file and libraries."""
    absent = {side: why for side, why in about["absent"].items() if side in there}
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(about, file)
        file.flush()
        ways = {
            side: lambda side=side: run_once(side, file.name, batch, options)
            for side in ["python", *there]
            if side not in absent
        }
        first = alternate(ways, 1)[0]
        absent |= {side: record["absent"] for side, record in first.items() if "absent" in record}
        rounds = [first, *alternate({s: way for s, way in ways.items() if s not in absent}, options.rounds - 1)]
    bare = first["python"]["libraries"]
    return {
        "model": about["model"],
        "precision": about["precision"],
        "batch": batch,
        "runs": MEMORY_RUNS,
        "python_peak_rss": statistics.median(r["python"]["peak_rss"] for r in rounds),
        "sides": {side: summary(rounds, side, about, bare) for side in there if side not in absent},
        "absent": absent,
    }


def summary(rounds, side, about, bare_libraries):
    def median(key):
        return statistics.median(r[side][key] for r in rounds)

    libraries = [path for path in rounds[0][side]["libraries"] if path not in bare_libraries]
    sizes = {path: stripped_bytes(path) for path in libraries if not is_of_system(path)}
    return {
        "file_to_result_s": median("file_to_result_s"),
        "import_s": median("import_s"),
        "process_s": median("process_s"),
        "peak_rss": median("peak_rss"),
        "file_bytes": models.file_bytes(about, side),
        "runtime_bytes": sum(sizes.values()),
        "libraries": sizes,
    }


def is_of_system(path):
    """Libraries that a system has anyway: libstdc++, libgcc and the like."""
    return path.startswith(("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"))
