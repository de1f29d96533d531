#!/usr/bin/env python3
"""Kills a training run at random moments and lets it go on, again and again: `kill_resume.py BRIM [--kills N] [--seed S]`.

Each kill is followed by `--resume`. Checked after every one: nothing but sound checkpoints under their names (the next
run warns of none), no more lost than the interval and the one before, whose checkpoint may have been in writing, nothing
half written left in the folder. Whenever a run comes to
its end, its weights must equal those of the run that was never killed, byte for byte; then the next one begins.
"""

import argparse
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

EVERY = 4  # steps between checkpoints: most kills hit one that is being written; progress is told every 3


def fail(message):
    sys.exit(f"kill_resume: {message}")


def write_cifar(path, records, rng):
    with open(path, "wb") as file:
        for i in range(records):
            base = rng.randbytes(3)
            file.write(bytes([i % 10]) + b"".join(bytes([base[c] ^ v & 31 for v in rng.randbytes(1024)]) for c in range(3)))


class Runs:
    def __init__(self, brim, folder, rng):
        self.brim, self.folder, self.rng = brim, folder, rng
        data = folder / "data"
        data.mkdir()
        write_cifar(data / "data_batch_1.bin", 120, rng)
        write_cifar(data / "test_batch.bin", 10, rng)
        (folder / "recipe.toml").write_text(
            f'data = "{data}"\nepochs = 3\nbatch = 4\n[input]\nflip = true\ncrop_padding = 4\nsize = 32\n'
            '[optimizer]\nlr = 0.01\nmomentum = 0.9\n[schedule]\nname = "cosine"\n'
        )

    def start(self, out, workers):
        return subprocess.Popen(
            [self.brim, "train", str(self.folder / "recipe.toml"), "--out", str(out), "--resume", str(out),
             "--checkpoint-every", str(EVERY), "--workers", str(workers), "--device", "cpu"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def whole(self):
        """The weights of the run that nobody disturbs, and how long it takes."""
        begin = time.monotonic()
        process = self.start(self.folder / "whole", 1)
        out, err = process.communicate()
        if process.returncode != 0 or err:
            fail(f"the undisturbed run ended with {process.returncode}: {err}")
        return (self.folder / "whole/model.safetensors").read_bytes(), time.monotonic() - begin


def steps_begun_at(text):
    """The step that a run went on from, as it says."""
    if "holds no checkpoint yet: beginning anew" in text:
        return 0
    found = re.search(r"going on from \S+, after step (\d+)", text)
    return int(found.group(1)) if found else None


def check_folder(out):
    for path in out.glob("*"):
        if path.name.startswith("checkpoint-") and not re.fullmatch(r"checkpoint-\d{8}", path.name):
            fail(f"{path} was left behind")
        if path.name.startswith("checkpoint-"):
            for name, entry in json.loads((path / "manifest.json").read_text()).items():
                if (path / name).stat().st_size != entry["bytes"]:
                    fail(f"{path / name} is not what the manifest says")
    if (out / "best").is_symlink() and not (out / "best/manifest.json").exists():
        fail(f"{out}/best leads nowhere")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("brim")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    options = parser.parse_args()
    print(f"kill_resume: seed {options.seed}")
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="brim-kill-") as scratch:
        runs = Runs(options.brim, pathlib.Path(scratch), rng)
        expected, seconds = runs.whole()
        kills = amid_writing = finished = lost = 0
        number = 0
        trained = 0  # steps that are known to have been done
        pending = False  # the last run was killed
        while kills < options.kills or pending:
            out = runs.folder / f"run-{number}"
            process = runs.start(out, rng.choice([0, 1, 2]))
            ended = False
            try:
                limit = rng.uniform(0, seconds) if kills < options.kills else None
                text, err = process.communicate(timeout=limit)
                ended = True
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                text, err = process.communicate()
            if err:
                fail(f"run {number} said: {err}")
            begun = steps_begun_at(text)
            if begun is not None:
                if trained - begun > 2 * EVERY:
                    fail(f"run {number}: {trained} steps were done, and it went on from {begun}")
                lost = max(lost, trained - begun)
                reports = [int(n) for n in re.findall(r"step (\d+)/", text)]
                trained = max(trained, begun + (reports[-1] if reports else 0))
            if out.is_dir():
                check_folder(out)
            half = [p.name for p in out.glob(".*")] if out.is_dir() else []
            pending = not ended
            if pending:
                kills += 1
                amid_writing += bool(half)
                continue
            if process.returncode != 0:
                fail(f"run {number} ended with exit code {process.returncode}")
            if half:
                fail(f"run {number} left {half}")
            if (out / "model.safetensors").read_bytes() != expected:
                fail(f"run {number}: the weights differ from those of the undisturbed run")
            finished += 1
            number += 1
            trained = 0
        print(f"kill_resume: {kills} kills, {amid_writing} of them amid a checkpoint's writing; {finished} runs ended with "
              f"the same weights; at most {lost} known steps were lost (interval {EVERY})")  # fmt: skip


if __name__ == "__main__":
    main()
