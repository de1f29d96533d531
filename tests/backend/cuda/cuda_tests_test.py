#!/usr/bin/env python3
"""What cuda_tests.py makes of tests that fail, spoil their process, end it or hang: a program that behaves so stands in
for contract_test."""
import os
import subprocess
import sys
import tempfile

PROGRAM = r'''
import os, sys, time
TESTS = ["Fine/a", "Wrong", "Fine/b", "Dies", "Fine/c", "Hangs", "Sticky", "Fine/d", "Behind", "Skipped", "Fine/e"]
if "--gtest_list_tests" in sys.argv:
    print("Contract.")
    for test in TESTS:
        print(f"  {test}  # GetParam() = 1.5")
    sys.exit()
wanted = [o for o in sys.argv if o.startswith("--gtest_filter=")][0].split("=")[1].split(":")
if wanted == ["Devices.None"]:
    print("[  SKIPPED ] Devices.None\nno GPU: none at all")
    sys.exit()
if wanted == ["ContractDevices.Cuda"]:
    print("[  PASSED  ] 1 test.", flush=True)
    sys.stdout.buffer.write(b"\xff no UTF-8\n")
    sys.exit()
spoilt = False
for test in wanted:
    print("[ RUN      ]", test, flush=True)
    name = test.split(".")[1]
    if name == "Dies":
        print("about to die", os.environ["SAID"], flush=True)
        os.abort()
    if name == "Hangs":
        time.sleep(60)
    if name in ("Wrong", "Sticky") or spoilt:
        print(f"x.cpp:1: Failure\n{name} is wrong")
        print("[  FAILED  ]", test, flush=True)
        spoilt = True
    elif name == "Skipped":
        print("fake.cpp:1: Skipped\nit needs more\n[  SKIPPED ]", test, "(0 ms)", flush=True)
    else:
        print("no end of line", end="")
        print("[       OK ]", test, "(0 ms)", flush=True)
    if name == "Behind":
        print("a thread goes wrong", flush=True)
        os.abort()
if wanted[-1].endswith("Fine/e"):
    print("leaks")
    sys.exit(1)
sys.exit(spoilt)
'''


def main():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda_tests.py")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "contract_test")
        with open(program, "w") as file:
            file.write(f"#!{sys.executable}" + PROGRAM)
        os.chmod(program, 0o755)
        for shards in (1, 3):
            run = subprocess.run([sys.executable, script, "--shards", str(shards), "--timeout", "2",
                                  "--failed", os.path.join(folder, "failed"),
                                  "--under", "env SAID='in here'", program],
                                 capture_output=True, text=True, timeout=50)
            assert run.returncode == 1, run
            failed = sorted(line.split()[1] for line in run.stdout.splitlines() if line.startswith("FAILED"))
            # A process that only passes and then ends badly: its last test is named.
            assert failed == [f"Contract.{name}" for name in ("Behind", "Dies", "Fine/e", "Hangs", "Sticky", "Wrong")], run.stdout
            assert "1 skipped: it needs more\n11 tests: 4 pass, 6 fail, 1 skipped" in run.stdout, run.stdout
            with open(os.path.join(folder, "failed")) as file:
                assert sorted(file.read().split()) == failed
            for said in ("Wrong is wrong", "ended its process with code -6:\nabout to die in here", "took longer than 2 s",
                         "ended its process with code -6:\na thread goes wrong", "ended its process with code 1:\nleaks"):
                assert said in run.stdout, run.stdout
        run = subprocess.run([sys.executable, script, "--ask", "Devices.None", program], capture_output=True, text=True, timeout=50)
        assert (run.returncode, run.stdout) == (77, "no GPU: none at all\n"), run


if __name__ == "__main__":
    main()
