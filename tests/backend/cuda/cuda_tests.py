#!/usr/bin/env python3
"""Runs a test program such as the contract suite, and says how it went on cuda.

    cuda_tests.py [--shards N] [--timeout SECONDS] [--ask TEST] [--failed FILE] [--under COMMAND] PROGRAM [--gtest_filter=...]

N processes share the tests; what failed is printed at once, and its names go to FILE, a line each. A test that fails,
ends its process or takes longer than --timeout costs that test alone: the others go on in a new process, as an error of
CUDA's may stay with the old one. A test may fail only by asking for an op listed in cuda_missing.txt beside this file, on
cuda. Exit code 77 (ctest: skipped) where there is no CUDA device, which BRIM_BACKEND_PATH can be: the emulation; --ask:
the test that is skipped then, ContractDevices.Cuda unless told. --under: what runs the program, such as compute-sanitizer
with its options.
"""
import argparse
import collections
import os
import re
import shlex
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

MISSING = re.compile(r"\[(\w+)\] is not implemented on cuda for (\w+)")
RUN = "[ RUN      ] "
END = re.compile(r"(\[       OK \]|\[  FAILED  \]|\[  SKIPPED \]) \w+[./]")


class Skipped(str):
    """Why a test was."""


def allowed():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda_missing.txt")
    with open(path) as lines:
        return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def has_cuda(program, ask):
    """Whether the program finds a device: this test is skipped where it does not."""
    out = subprocess.run([program, "--gtest_filter=" + ask], capture_output=True, text=True, errors="replace")
    if "[  PASSED  ] 1 test" in out.stdout:
        return True
    if "SKIPPED" in out.stdout:
        why = re.search(r"no GPU: .*", out.stdout)
        print(why.group(0) if why else "no GPU")
        return False
    sys.exit(f"cuda_tests: {program} does not run:\n{out.stdout}{out.stderr}")


def tests_of(program, options):
    listed = subprocess.run([program, "--gtest_list_tests", *options], capture_output=True, text=True, errors="replace", check=True)
    tests, suite = [], ""
    for line in listed.stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            tests.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return [test for test in tests if "DISABLED_" not in test]


def run_process(program, tests, seconds):
    """Runs tests in one process until one of them fails; yields (test, why it failed or was Skipped, or None) for each
    that ended."""
    process = subprocess.Popen([*program, "--gtest_filter=" + ":".join(tests), "--gtest_color=no"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    late = threading.Event()

    def stop():
        late.set()
        process.kill()

    test, last, said, clock = None, None, [], None
    try:
        for line in process.stdout:
            if RUN in line:
                if clock:
                    clock.cancel()
                test, said = line.split(RUN)[1].strip(), []
                clock = threading.Timer(seconds, stop)
                clock.start()
            elif test and (end := END.search(line)):  # behind what the test may have left of a line
                clock.cancel()
                if end[1] == "[  FAILED  ]":
                    yield test, "".join(said) or "it says nothing"
                    return
                yield test, Skipped(said[-1].strip() if said else "") if end[1] == "[  SKIPPED ]" else None
                test, last, said = None, test, []
            else:
                said.append(line)
        process.wait()
        how = (f"took longer than {seconds:g} s" if late.is_set() else
               f"ended its process with code {process.returncode}")
        if test or (last and process.returncode != 0):
            yield test or last, f"{how}:\n" + "".join(said[-40:])
    finally:
        if clock:
            clock.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


def run_all(program, tests, seconds, tell):
    """Runs tests in as many processes as it takes; returns {test: why it failed or was Skipped, or None}."""
    results = {}
    while tests:
        ended = dict(run_process(program, tests, seconds))
        if not ended:
            ended = {tests[0]: "its process ended before it"}
        for test, why in ended.items():
            if why and not isinstance(why, Skipped):
                tell(test, why)
        results.update(ended)
        tests = [test for test in tests if test not in results]
    return results


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=100)
    parser.add_argument("--ask", default="ContractDevices.Cuda")
    parser.add_argument("--failed")
    parser.add_argument("--under", default="", type=shlex.split)
    parser.add_argument("program")
    given, options = parser.parse_known_args()
    if not has_cuda(given.program, given.ask):
        return 77
    missing, asked, waiting, failed, skipped = allowed(), set(), [], [], []
    lock = threading.Lock()

    def tell(test, why):
        names = MISSING.findall(why)
        with lock:
            if names and all(op in missing for op, _ in names) and why.count("Failure\n") <= len(names):
                asked.update(op for op, _ in names)
                waiting.append(test)
            else:
                failed.append(test)
                print(f"FAILED {test}\n{why}", flush=True)
                if given.failed:
                    with open(given.failed, "a") as file:
                        file.write(test + "\n")

    if given.failed:
        open(given.failed, "w").close()
    tests = tests_of(given.program, options)
    shares = [tests[i::given.shards] for i in range(given.shards)]
    with ThreadPoolExecutor(given.shards) as pool:
        for share in [pool.submit(run_all, [*given.under, given.program], share, given.timeout, tell) for share in shares]:
            skipped += [why for why in share.result().values() if isinstance(why, Skipped)]
    for why, count in collections.Counter(skipped).most_common():
        print(f"{count} skipped: {why}")
    print(f"{len(tests)} tests: {len(tests) - len(waiting) - len(failed) - len(skipped)} pass, {len(failed)} fail, "
          f"{len(skipped)} skipped, {len(waiting)} ask for an op without a CUDA kernel ({', '.join(sorted(asked)) or 'none'})")
    if missing - asked and not options:
        print("listed in cuda_missing.txt, but no test ended there (perhaps another op came first): " +
              ", ".join(sorted(missing - asked)))
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
