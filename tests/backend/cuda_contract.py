#!/usr/bin/env python3
"""Runs the contract suite, and says how it went on cuda.

    cuda_contract.py build/tests/contract_test [--gtest_filter=...]

A test may fail only by asking for an op listed in cuda_missing.txt beside this file, on cuda. Exit code 77 (ctest:
skipped) where there is no CUDA device, which BRIM_BACKEND_PATH can be: the emulation.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

MISSING = re.compile(r"\[(\w+)\] is not implemented on cuda for (\w+)")


def allowed():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda_missing.txt")
    with open(path) as lines:
        return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def has_cuda(program):
    """Whether contract_test finds a device: the test of this name is skipped where it does not."""
    out = subprocess.run([program, "--gtest_filter=ContractDevices.Cuda"], capture_output=True, text=True)
    if "[  PASSED  ] 1 test" in out.stdout:
        return True
    if "SKIPPED" in out.stdout:
        why = re.search(r"no GPU: .*", out.stdout)
        print(why.group(0) if why else "no GPU")
        return False
    sys.exit(f"cuda_contract: {program} does not run:\n{out.stdout}{out.stderr}")


def main():
    program, options = sys.argv[1], sys.argv[2:]
    if not has_cuda(program):
        return 77
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        run = subprocess.run([program, "--gtest_brief=1", f"--gtest_output=json:{report}", *options],
                             capture_output=True, text=True)
        if not os.path.exists(report):
            print(run.stdout[-4000:] + run.stderr[-4000:])
            print(f"cuda_contract: it ended with code {run.returncode} before the last test")
            return 1
        with open(report) as file:
            suites = json.load(file)["testsuites"]
    missing, asked, waiting, failed, tests = allowed(), set(), [], [], 0
    for test in (test for suite in suites for test in suite["testsuite"]):
        tests += 1
        failures = [f["failure"] for f in test.get("failures", [])]
        names = [MISSING.search(f) for f in failures]
        if not failures:
            continue
        if all(n and n.group(1) in missing for n in names):
            asked |= {n.group(1) for n in names}
            waiting.append(f'{test["classname"]}.{test["name"]}')
        else:
            failed.append(f'{test["classname"]}.{test["name"]}')
            print(f"FAILED {failed[-1]}\n" + "\n".join(failures))
    stale = missing - asked if not options else set()
    print(f"{tests} tests: {tests - len(waiting) - len(failed)} pass, {len(failed)} fail, "
          f"{len(waiting)} ask for an op without a CUDA kernel ({', '.join(sorted(asked)) or 'none'})")
    if stale:
        print("listed in cuda_missing.txt, but no test ended there (perhaps another op came first): " +
              ", ".join(sorted(stale)))
    if not failed and not waiting and run.returncode != 0:
        print(run.stdout[-4000:] + run.stderr[-4000:])
        return 1
    return 1 if failed or tests == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
