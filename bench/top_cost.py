#!/usr/bin/env python3
"""What `brim top` costs at 2 Hz, beside 64 processes of others and one training on 8 virtual devices: the share of a core that it
takes, the most memory that it holds, and how long it takes to its first picture. top_cost.py BRIM [SECONDS]"""

import fcntl
import json
import os
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

PROCESSES, DEVICES, STARTS = 64, 8, 21


def start(brim, environment):
    """In a terminal of 50 x 160: its process, the terminal, and when it began."""
    begin = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(brim, [brim, "top"], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    return pid, terminal, begin


def quit_top(pid, terminal):
    os.write(terminal, b"q")
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass  # it has gone
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, status
    os.close(terminal)
    return usage


def first_picture(brim, environment):
    """Seconds until it has shown the list of processes."""
    pid, terminal, begin = start(brim, environment)
    shown = b""
    while b"PID" not in shown:
        shown += os.read(terminal, 1 << 16)
    took = time.monotonic() - begin
    quit_top(pid, terminal)
    return took


def steady(brim, environment, seconds):
    """The share of a core from the second second on, and MiB."""
    pid, terminal, _ = start(brim, environment)
    os.set_blocking(terminal, False)

    def read_for(duration):
        end = time.monotonic() + duration
        while time.monotonic() < end:
            try:
                os.read(terminal, 1 << 16)
            except BlockingIOError:
                time.sleep(0.05)

    def used():
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    read_for(2)
    before, begin = used(), time.monotonic()
    read_for(seconds)
    share = (used() - before) / (time.monotonic() - begin)
    os.set_blocking(terminal, True)
    return share, quit_top(pid, terminal).ru_maxrss / 1024


def main():
    brim, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 30
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "BRIM_RUNTIME_DIR": folder, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        others = [subprocess.Popen(["sleep", "3600"]) for _ in range(PROCESSES)]
        devices = ",".join(f"sim:{k}" for k in range(DEVICES))
        try:
            starts = [first_picture(brim, environment) for _ in range(STARTS)]  # while the cores are free
            others.append(subprocess.Popen(
                [brim, "train", "tutorial-cnn", "--data", "shapes10", "--batch", "64", "--epochs", "1000000", "--device", devices],
                env={**environment, "BRIM_SIM_DEVICES": str(DEVICES)}, stdout=subprocess.DEVNULL))
            while not any(name.endswith(".sock") for name in os.listdir(folder)):
                time.sleep(0.1)
            share, memory = steady(brim, environment, seconds)
        finally:
            for process in others:
                process.terminate()
                process.wait()
    print(json.dumps({"core_share": share, "peak_mib": memory, "first_picture_ms": 1e3 * statistics.median(starts),
                      "first_picture_ms_range": [1e3 * min(starts), 1e3 * max(starts)], "seconds": seconds}))


if __name__ == "__main__":
    main()
