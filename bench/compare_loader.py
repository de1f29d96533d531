#!/usr/bin/env python3
"""Compares brim's loader with libjpeg-turbo alone and with torchvision's DataLoader, in one run, round by round.

  pictures   JPEGs of a tar: decode, random resized crop to 224, flip, normalise. `libjpeg` is the rate at which
             libjpeg-turbo alone decodes the same files at the same sizes with as many threads.
  memory     CIFAR-10 in memory: random crop with padding 4, flip, normalise, batches of 128.

All sides use the same number of threads (torchvision: worker processes). A round measures each side once, and their
order alternates, so a change of the machine's speed meets all of them; ratios are taken inside each round, and their
median and range over the rounds are reported. `CPU us` is the CPU time of all threads for one picture, which is
steadier on a machine that others use too (torchvision's is not counted: its workers are other processes).

torch and torchvision must be installed in the Python that runs this script; brim is measured by
build/bench/loader_rate_bench (`ninja -C build loader_rate_bench`).
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

from compare.files import file_name, write_text

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RECORD = 3073  # bytes of a CIFAR-10 record: a label and 32 x 32 pixels in three planes


def fail(message):
    print(f"compare_loader: {message}", file=sys.stderr)
    raise SystemExit(1)


def run_brim(options, case, path):
    command = [options.brim, case, path, str(options.threads), str(options.seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Loader:
    """torchvision's transforms behind PyTorch's DataLoader, with workers that stay."""

    def __init__(self, dataset, batch, samples, options):
        from torch.utils.data import DataLoader, RandomSampler

        self.seconds = options.seconds
        self.loader = DataLoader(
            dataset,
            batch_size=batch,
            sampler=RandomSampler(dataset, num_samples=samples),
            num_workers=options.threads,
            persistent_workers=True,
        )
        for _ in self.loader:  # starts the workers
            pass

    def rate(self):
        images, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < self.seconds:
            for x, _ in self.loader:
                images += x.shape[0]
        return images / (time.perf_counter() - begin)


def torch_pictures(path, options, folder):
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    dataset = ImageFolder(folder, transforms.Compose([*steps, transforms.Normalize(MEAN, STD)]))
    return Loader(dataset, 50, max(1000, len(dataset)), options)


def torch_memory(path, options, _):
    import numpy
    from PIL import Image
    from torch.utils.data import Dataset
    from torchvision import transforms

    class Cifar10(Dataset):
        """What torchvision.datasets.CIFAR10 does once its files are read."""

        def __init__(self):
            records = [
                numpy.fromfile(os.path.join(path, name), numpy.uint8).reshape(-1, RECORD)
                for name in sorted(os.listdir(path))
                if name.startswith("data_batch_") and name.endswith(".bin")
            ]
            data = numpy.concatenate(records)
            self.targets = data[:, 0].tolist()
            self.data = numpy.ascontiguousarray(data[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
            steps = [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
            self.transform = transforms.Compose([*steps, transforms.Normalize((0.5,) * 3, (0.5,) * 3)])

        def __len__(self):
            return len(self.targets)

        def __getitem__(self, index):
            return self.transform(Image.fromarray(self.data[index])), self.targets[index]

    dataset = Cifar10()
    return Loader(dataset, 128, min(len(dataset), 12800), options)


CASES = {"pictures": torch_pictures, "memory": torch_memory}


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def compare(case, path, options):
    with tempfile.TemporaryDirectory() as folder:
        loader = CASES[case](path, options, folder)
        rounds = []
        for turn in range(options.rounds):
            sides = {"brim": lambda: run_brim(options, case, path), "torchvision": loader.rate}
            order = list(sides) if turn % 2 == 0 else list(reversed(sides))
            rounds.append({name: sides[name]() for name in order})
    ours = [r["brim"]["brim"] for r in rounds]
    result = {
        "case": case,
        "data": os.path.basename(os.path.normpath(path)),
        "brim": summary([r["images_per_s"] for r in ours]),
        "brim_cpu_us": summary([r["cpu_us"] for r in ours]),
        "torchvision": summary([r["torchvision"] for r in rounds]),
        "over_torchvision": summary([r["brim"]["brim"]["images_per_s"] / r["torchvision"] for r in rounds]),
    }
    if case == "pictures":
        bare = [r["brim"]["libjpeg"] for r in rounds]
        result["libjpeg"] = summary([r["images_per_s"] for r in bare])
        result["libjpeg_cpu_us"] = summary([r["cpu_us"] for r in bare])
        result["of_libjpeg"] = summary([a["images_per_s"] / b["images_per_s"] for a, b in zip(ours, bare)])
        result["of_libjpeg_cpu"] = summary([b["cpu_us"] / a["cpu_us"] for a, b in zip(ours, bare)])
        result["eighths"] = rounds[0]["brim"]["eighths"]
    return result


def line(name, values, unit, digits=0):
    print(
        f"  {name:<28}{values['median']:>12.{digits}f}   {values['min']:.{digits}f}..{values['max']:.{digits}f} {unit}",
        flush=True,
    )


def show(result):
    print(f"{result['case']} ({result['data']})")
    line("brim", result["brim"], "img/s")
    if "libjpeg" in result:
        line("libjpeg-turbo alone", result["libjpeg"], "img/s")
    line("torchvision", result["torchvision"], "img/s")
    if "libjpeg" in result:
        line("brim / libjpeg-turbo", result["of_libjpeg"], "", 3)
        line("  by CPU time", result["of_libjpeg_cpu"], "", 3)
    line("brim / torchvision", result["over_torchvision"], "", 2)
    line("brim, CPU time of a picture", result["brim_cpu_us"], "us", 1)


def parse():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pictures", metavar="TAR", help="a tar of JPEGs, CLASS/x.jpg")
    parser.add_argument("--memory", metavar="FOLDER", help="CIFAR-10 binary (`brim data convert` makes it)")
    parser.add_argument("--json", type=file_name, metavar="FILE", help="write the report there (- for standard output)")
    bench = os.path.join(root, "build", "bench", "loader_rate_bench")
    parser.add_argument("--brim", default=bench, help="the program that measures brim")
    parser.add_argument("--threads", type=int, default=2, help="threads or workers of each side")
    parser.add_argument("--rounds", type=int, default=7, help="alternating rounds")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of one measurement")
    options = parser.parse_args()
    if options.threads < 1 or options.rounds < 1 or not 0 < options.seconds < math.inf:
        fail("--threads and --rounds must be at least 1, and --seconds above 0")
    if not os.access(options.brim, os.X_OK):
        fail(f"no program at {options.brim}; run `ninja -C build loader_rate_bench` or name it with --brim PATH")
    if not options.pictures and not options.memory:
        fail("nothing to do; give --pictures TAR, --memory FOLDER or both")
    return options


def main():
    options = parse()
    try:
        import torch
        import torchvision
    except ImportError as error:
        fail(f"{error.name} is missing from {sys.executable}; pip install torch torchvision numpy into it")
    print(f"torchvision {torchvision.__version__}, torch {torch.__version__}, {options.threads} threads each", flush=True)
    results = []
    for case in CASES:
        path = getattr(options, case)
        if path and not os.path.exists(path):
            print(f"{case}: skipped: no data at {path}")
        elif path:
            results.append(compare(case, path, options))
            show(results[-1])
    if options.json:
        report = {
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "threads": options.threads,
            "rounds": options.rounds,
            "seconds": options.seconds,
            "load_average": os.getloadavg(),
            "results": results,
        }
        write_text(options.json, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
