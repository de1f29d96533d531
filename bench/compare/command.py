"""Runs the command `brim` and PyTorch processes, and reads what they print."""

import json
import os
import subprocess
import sys


def fail(message):
    script = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    print(f"{script}: {message}", file=sys.stderr)
    raise SystemExit(1)


class Brim:
    """`brim bench` with the options of this comparison."""

    def __init__(self, path, threads):
        self.path, self.threads = path, threads

    def words(self, *arguments):
        return [self.path, "bench", *arguments, "--json", "-", "--threads", str(self.threads)]

    def record(self, *arguments):
        """The JSON object that `brim bench ARGUMENTS` prints."""
        command = self.words(*arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            fail(f"`{' '.join(command)}` printed no JSON object ({error}): {done.stdout[:200]!r}")

    def names(self):
        """Of the cases that this build has."""
        done = subprocess.run([self.path, "bench", "list"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"`{self.path} bench list` ended with {done.returncode}: {done.stderr.strip()}")
        return {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
