#!/usr/bin/env python3
"""Compares brim's loader with PyTorch's DataLoader on tensors that are no pictures, in one run, round by round.

  table      1,000,000 rows of 32 floats with a label, in memory, shuffled, batches of 1,024.
  own        brim alone: the same from a data set of a user's own, beside the built-in one.
  tokens     windows of 512 from a mapped file of 50,000,000 u16 tokens, with what comes next, batches of 32.
  sentences  200,000 of 1 to 256 tokens, batches of 64 of about one length, padded to the longest.

PyTorch is measured with 0, 1, 2 and 4 workers, and its best number is taken. A round measures each side once, and the
order alternates; ratios are taken inside each round, and their median and range over the rounds are reported.

torch and numpy must be installed in the Python that runs this script; brim is measured by
build/bench/dataset_rate_bench (`ninja -C build dataset_rate_bench`).
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from compare.files import file_name, write_text

ROWS, COLUMNS, WINDOW = 1_000_000, 32, 512
WORKERS = (0, 1, 2, 4)


def fail(message):
    print(f"compare_dataset: {message}", file=sys.stderr)
    raise SystemExit(1)


def brim_rate(options, case, path):
    command = [options.brim, case, str(options.threads), str(options.seconds)] + ([path] if path else [])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)["samples_per_s"]


def torch_table(_):
    import torch

    dataset = torch.utils.data.TensorDataset(torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, dtype=torch.int64))
    return dataset, {"batch_size": 1024, "shuffle": True, "drop_last": True}


def torch_tokens(path):
    import numpy
    import torch

    class Tokens(torch.utils.data.Dataset):
        def __init__(self):
            self.tokens = numpy.memmap(path, numpy.uint16, "r")

        def __len__(self):
            return (len(self.tokens) - WINDOW - 1) // WINDOW + 1

        def __getitem__(self, index):
            begin = index * WINDOW
            both = torch.from_numpy(self.tokens[begin : begin + WINDOW + 1].astype(numpy.int64))
            return both[:-1], both[1:]

    return Tokens(), {"batch_size": 32, "shuffle": True, "drop_last": True}


def torch_sentences(_):
    import torch

    draw = random.Random(7)
    lengths = [1 + draw.randint(0, 255) * draw.randint(0, 255) // 255 for _ in range(200_000)]
    sentences = [torch.randint(1, 30_000, (length,)) for length in lengths]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batches = [order[i : i + 64] for i in range(0, len(order), 64)]

    class Shuffled:
        def __len__(self):
            return len(batches)

        def __iter__(self):
            draw.shuffle(batches)
            return iter(batches)

    def collate(samples):
        x = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
        return x, torch.tensor([len(sample) for sample in samples])

    return sentences, {"batch_sampler": Shuffled(), "collate_fn": collate}


CASES = {"table": torch_table, "tokens": torch_tokens, "sentences": torch_sentences}


class Peer:
    """A DataLoader with the number of workers that was the fastest."""

    def __init__(self, case, path, seconds):
        from torch.utils.data import DataLoader

        dataset, how = CASES[case](path)
        self.seconds = seconds
        rates = {}
        for workers in WORKERS:
            self.loader = DataLoader(dataset, num_workers=workers, persistent_workers=workers > 0, **how)
            rates[workers] = self.rate()
        self.workers = max(rates, key=rates.get)
        self.loader = DataLoader(dataset, num_workers=self.workers, persistent_workers=self.workers > 0, **how)
        self.rate()  # starts the workers

    def rate(self):
        samples, begin = 0, None
        while True:
            for x, _ in self.loader:
                if begin is None:  # behind the first batch: workers start before it
                    begin = time.perf_counter()
                    continue
                samples += x.shape[0]
                if time.perf_counter() - begin > self.seconds:
                    return samples / (time.perf_counter() - begin)


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def compare(case, options, path):
    names = ("own", "table") if case == "own" else (case, "torch")
    peer = None if case == "own" else Peer(case, path, options.seconds)
    sides = {names[0]: lambda: brim_rate(options, names[0], path), names[1]: lambda: brim_rate(options, names[1], path)}
    if peer:
        sides["torch"] = peer.rate
    rounds = []
    for turn in range(options.rounds):
        order = list(sides) if turn % 2 == 0 else list(reversed(sides))
        rounds.append({name: sides[name]() for name in order})
    return {
        "case": case,
        "brim": summary([r[names[0]] for r in rounds]),
        "peer": summary([r[names[1]] for r in rounds]),
        "peer_name": f"PyTorch, {peer.workers} workers" if peer else "built in",
        "ratio": summary([r[names[0]] / r[names[1]] for r in rounds]),
    }


def show(result):
    print(result["case"])
    for name, key, digits in (("brim", "brim", 0), (result["peer_name"], "peer", 0), ("brim / it", "ratio", 2)):
        v = result[key]
        unit = "" if key == "ratio" else " samples/s"
        print(f"  {name:<22}{v['median']:>14.{digits}f}   {v['min']:.{digits}f}..{v['max']:.{digits}f}{unit}", flush=True)


def parse():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="table, own, tokens, sentences; all without one")
    parser.add_argument("--json", type=file_name, metavar="FILE", help="write the report there (- for standard output)")
    bench = os.path.join(root, "build", "bench", "dataset_rate_bench")
    parser.add_argument("--brim", default=bench, help="the program that measures brim")
    parser.add_argument("--threads", type=int, default=2, help="brim's workers")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of one measurement")
    options = parser.parse_args()
    known = ("table", "own", "tokens", "sentences")
    for case in options.cases:
        if case not in known:
            fail(f"no case '{case}'; there are {', '.join(known)}")
    options.cases = options.cases or known
    if options.threads < 0 or options.rounds < 1 or not 0 < options.seconds < math.inf:
        fail("--threads must be at least 0, --rounds at least 1, and --seconds above 0")
    if not os.access(options.brim, os.X_OK):
        fail(f"no program at {options.brim}; run `ninja -C build dataset_rate_bench` or name it with --brim PATH")
    return options


def main():
    options = parse()
    try:
        import numpy
        import torch
    except ImportError as error:
        fail(f"{error.name} is missing from {sys.executable}; pip install torch numpy into it")
    print(f"torch {torch.__version__}, brim with {options.threads} workers", flush=True)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        tokens = os.path.join(folder, "tokens.bin")
        if "tokens" in options.cases:
            numpy.random.default_rng(1).integers(0, 50_000, 50_000_000, numpy.uint16).tofile(tokens)
        for case in options.cases:
            results.append(compare(case, options, tokens if case == "tokens" else ""))
            show(results[-1])
    if options.json:
        report = {"torch": torch.__version__, "threads": options.threads, "rounds": options.rounds, "results": results}
        write_text(options.json, json.dumps({**report, "load_average": os.getloadavg()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
