#!/usr/bin/env python3
"""Compares `brim forecast` with published measurements of data parallel training.

Each system names GPUs, links, network, how it cuts gradients into buckets, and the images/s that were measured on one GPU, on one
host and, of some, on several. Two numbers are fitted: the device's profile is scaled, its peaks and its bandwidth alike, until the
forecast for one GPU is the rate of one; then the spread of steps (`--step-spread`), until that for one host is the rate of one host.
What is tested is one host without a spread, and several hosts with and without it. Links that are half as fast, and half as fast
again, show how much hangs on them.

Every forecast is simulated: no device is used.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from compare.files import file_name, write_text

# Of one GPU, from its data sheet; memory so that no step is cut to fit into it. Links count one direction.
PROFILES = {
    "P100 SXM2": {"bandwidth": 732, "peer": 80, "f32": 10.6, "f16": 21.2},
    "V100 SXM2": {"bandwidth": 900, "peer": 150, "f32": 15.7, "f16": 125},
    "A100 SXM": {"bandwidth": 2039, "peer": 300, "f32": 19.5, "f16": 312},
}
# How others cut gradients into buckets: `--buckets`.
SOLVED = "solved"
DDP = "filled:25"  # torch.nn.parallel.DistributedDataParallel: bucket_cap_mb
APEX = "filled:38.147"  # apex.parallel.DistributedDataParallel: message_size, 10 million floats
HOROVOD = "ready:64"  # tensor fusion up to HOROVOD_FUSION_THRESHOLD
DGX_1 = {"each": 8, "network": 100, "model": "resnet50", "precision": "fp32", "ring": True}
DLPERF = {**DGX_1, "profile": "V100 SXM2", "batch": 128}
DLPERF_SOURCE = "Oneflow-Inc/DLPerf, reports/dlperf_benchmark_test_report_v1.md: hosts of 8 V100, InfiniBand of 100 Gbit/s"
TENSORFLOW = "TensorFlow benchmarks, May 2017 (tensorflow/docs, r1/guide/performance/benchmarks.md): DGX-1, synthetic data"
UBER = {"each": 4, "network": 25, "precision": "fp32", "ring": True, "profile": "P100 SXM2", "batch": 64, "buckets": HOROVOD}
UBER_SOURCE = "Horovod, docs/benchmarks.rst: servers of 4 Pascal GPUs, RoCE of 25 Gbit/s"
# `rates`: images/s by number of GPUs; `of_linear`: what is published instead of many hosts' rates; `like`: whose spreads it takes,
# in the mean, where one host of its own was not published.
SYSTEMS = {
    "TensorFlow, ResNet-50": {
        "source": TENSORFLOW,
        **DGX_1,
        "profile": "P100 SXM2",
        "batch": 64,
        "buckets": SOLVED,
        "rates": {1: 219, 8: 1734},
    },
    "TensorFlow, ResNet-152": {
        "source": TENSORFLOW,
        **DGX_1,
        "profile": "P100 SXM2",
        "model": "resnet152",
        "batch": 64,
        "buckets": SOLVED,
        "rates": {1: 91.8, 8: 716},
    },
    "NVIDIA, 8 V100, apex": {
        "source": "NVIDIA DeepLearningExamples, ResNet-50 v1.5 for PyTorch: DGX-1 16GB",
        **DGX_1,
        "profile": "V100 SXM2",
        "batch": 64,
        "buckets": APEX,
        "rates": {1: 367, 8: 2855},
    },
    "NVIDIA, 8 A100, apex": {
        "source": "NVIDIA DeepLearningExamples, ResNet-50 v1.5 for PyTorch: DGX A100 80GB",
        **DGX_1,
        "profile": "A100 SXM",
        "precision": "tf32",
        "batch": 256,
        "buckets": APEX,
        "rates": {1: 938, 8: 7248},
    },
    "PyTorch 1.5, apex, fp32": {
        "source": DLPERF_SOURCE,
        **DLPERF,
        "buckets": APEX,
        "rates": {1: 367.29, 8: 2887.65, 16: 5716.79, 32: 10917.09},
    },
    "PyTorch 1.5, apex, fp16": {
        "source": DLPERF_SOURCE,
        **DLPERF,
        "precision": "fp16",
        "batch": 256,
        "buckets": APEX,
        "rates": {1: 802.9, 8: 6154.66, 16: 11991.94, 32: 22551.16},
    },
    "PyTorch 1.6, DDP": {
        "source": f"{DLPERF_SOURCE}; PyTorch/resnet50v1.5, DataLoader of 48 workers",
        **DLPERF,
        "buckets": DDP,
        "rates": {1: 348.62, 8: 2632.93, 16: 5115.40, 32: 10021.29},
    },
    "PyTorch 1.6, DDP, DALI": {
        "source": f"{DLPERF_SOURCE}; PyTorch/resnet50v1.5, DALI of 48 workers",
        **DLPERF,
        "buckets": DDP,
        "rates": {1: 350.66, 8: 2707.42, 16: 5193.09, 32: 10032.72},
    },
    "MXNet, Horovod, fp32": {
        "source": DLPERF_SOURCE,
        **DLPERF,
        "buckets": HOROVOD,
        "rates": {1: 392.24, 8: 3006.98, 16: 5758.49, 32: 11331.93},
    },
    "TensorFlow 1.15, Horovod, fp32": {
        "source": DLPERF_SOURCE,
        **DLPERF,
        "buckets": HOROVOD,
        "rates": {1: 362.44, 8: 2721.98, 16: 5099.42, 32: 9514.64},
    },
    "MXNet, Horovod, fp16": {
        "source": DLPERF_SOURCE,
        **DLPERF,
        "precision": "fp16",
        "batch": 256,
        "buckets": HOROVOD,
        "rates": {1: 1393.87, 8: 9621.31, 16: 16219.03, 32: 30713.68},
    },
    "TensorFlow 1.15, Horovod, fp16": {
        "source": DLPERF_SOURCE,
        **DLPERF,
        "precision": "fp16",
        "batch": 224,
        "buckets": HOROVOD,
        "rates": {1: 945.18, 8: 6903.42, 16: 12021.09, 32: 24734.22},
    },
    "Horovod, ResNet-101": {
        "source": f"{UBER_SOURCE}, 1656.82 images/s on 16",
        **UBER,
        "model": "resnet101",
        "rates": {1: 1656.82 / 16},
        "of_linear": {128: 0.90, 512: 0.90},
        "like": ["TensorFlow, ResNet-50", "TensorFlow, ResNet-152"],
    },
    "Horovod, VGG-16": {
        "source": f"{UBER_SOURCE}; one GPU as in TensorFlow's benchmarks",
        **UBER,
        "model": "vgg16",
        "rates": {1: 154},
        "of_linear": {128: 0.79, 512: 0.68},
        "like": ["TensorFlow, ResNet-50", "TensorFlow, ResNet-152"],
    },
}


def fail(message):
    print(f"forecast_published: {message}", file=sys.stderr)
    raise SystemExit(1)


def write_profile(path, name, scale, link):
    p = PROFILES[name]
    text = f'name = "{name}"\nsource = "data sheet"\nmemory_gb = 256\nbandwidth_gb_s = {p["bandwidth"] * scale}\n'
    text += f'host_link_gb_s = 16\npeer_link_gb_s = {p["peer"] * link}\nlink_delay_us = 8\nlaunch_us = 4\nkernel_us = 2.5\n'
    text += f'[peak_tflops]\nf32 = {p["f32"] * scale}\nf64 = 5\nf16 = {p["f16"] * scale}\nbf16 = {p["f16"] * scale}\ni8 = 100\n'
    text += "[thermal]\nidle_w = 50\npeak_w = 300\nambient_c = 30\nwarmth_c_per_w = 0.13\nsettling_s = 60\nthrottle_c = 85\nthrottle_clock = 0.6\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Forecasts:
    """Those of one system."""

    def __init__(self, brim, folder, system):
        self.brim, self.folder, self.system = brim, folder, system
        self.scale = 1.0

    def row(self, gpus, spread=0.0, link=1.0):
        """With overlap."""
        s = self.system
        profile, recipe, result = (os.path.join(self.folder, name) for name in ("profile.toml", "recipe.toml", "result.json"))
        write_profile(profile, s["profile"], self.scale, link)
        with open(recipe, "w", encoding="utf-8") as file:
            file.write(f'model = "{s["model"]}"\n[input]\nsize = 224\n[optimizer]\nname = "sgd"\nlr = 0.1\nmomentum = 0.9\n')
        command = [self.brim, "forecast", recipe, "--device", profile, "--batch", str(s["batch"]), "--ranks", str(gpus)]
        command += ["--hosts", str(max(1, gpus // s["each"])), "--network", str(s["network"] * link), "--precision", s["precision"]]
        command += ["--buckets", s["buckets"], "--step-spread", str(100 * spread), *(["--ring"] if s["ring"] else [])]
        done = subprocess.run([*command, "--json", result], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
        with open(result, encoding="utf-8") as file:
            return next(row for row in json.load(file)["forecasts"] if row["ranks"] == gpus and row["overlap"])

    def fit_scale(self):
        for _ in range(6):
            self.scale *= self.system["rates"][1] / self.row(1)["images_per_s"]

    def fit_spread(self):
        """Of steps, with which one host is as much slower than linear as was measured."""
        each = self.system["each"]
        row = self.row(each)
        measured = row["images_per_s"] / self.system["rates"][each] * row["seconds_per_step"]
        waits = sum(1 / i for i in range(2, each + 1)) * row["compute_s"]
        return max(0.0, (measured - row["seconds_per_step"]) / waits)


def cases_of(system):
    """Numbers of GPUs and what they were measured to reach of linear."""
    cases = {gpus: rate / gpus / system["rates"][1] for gpus, rate in system["rates"].items() if gpus > 1}
    return {**cases, **system.get("of_linear", {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brim", default="build/bin/brim", help="the command (default: %(default)s)")
    parser.add_argument("--json", type=file_name, help="write all numbers to a file")
    parser.add_argument("--only", default="", metavar="TEXT", help="systems whose names have it, as PyTorch")
    parser.add_argument("--limit", type=float, help="fail where several hosts are off by more, as 0.05")
    options = parser.parse_args()
    systems = {name: system for name, system in SYSTEMS.items() if options.only in name}
    if not systems:
        fail(f"--only '{options.only}': no system's name has it; they are {'; '.join(SYSTEMS)}")
    for other in {other for system in systems.values() for other in system.get("like", [])}:
        systems = {other: SYSTEMS[other], **systems}
    report, spreads = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, system in systems.items():
            forecasts = Forecasts(options.brim, folder, system)
            forecasts.fit_scale()
            if "like" in system:
                spread = sum(spreads[other] for other in system["like"]) / len(system["like"])
            else:
                spread = spreads[name] = forecasts.fit_spread()
            print(f"{name}: one GPU is {forecasts.scale:.2f} times its data sheet, steps spread by {spread:.2%}\n  {system['source']}")
            for gpus, measured in cases_of(system).items():
                rows = {"without": forecasts.row(gpus), "with": forecasts.row(gpus, spread)}
                rows |= {f"links times {link}": forecasts.row(gpus, spread, link) for link in (0.5, 1.5)}
                shares = {key: row["of_linear"] for key, row in rows.items()}
                errors = {key: share / measured - 1 for key, share in shares.items()}
                is_fitted = gpus == system["each"]
                report.append(
                    {**system, "system": name, "gpus": gpus, "scale": forecasts.scale, "spread": spread, "measured": measured}
                    | {"forecast": shares, "error": errors["without" if is_fitted else "with"], "error_without": errors["without"]}
                )
                print(
                    f"  {gpus} GPUs: measured {measured:.1%} of linear, without spread {shares['without']:.1%} ({errors['without']:+.1%}), "
                    f"with it {shares['with']:.1%} ({'fitted' if is_fitted else format(errors['with'], '+.1%')}); links half as fast "
                    f"{shares['links times 0.5']:.1%}, half as fast again {shares['links times 1.5']:.1%}",
                    flush=True,
                )
    worst = max(report, key=lambda case: abs(case["error"]))
    within = sum(abs(case["error"]) <= 0.05 for case in report)
    print(f"{within} of {len(report)} within 5 %; the worst, {worst['system']} on {worst['gpus']} GPUs, {worst['error']:+.1%}")
    if options.json:
        write_text(options.json, json.dumps(report, indent=2) + "\n")
    past = [case for case in report if case["gpus"] > case["each"] and options.limit and abs(case["error"]) > options.limit]
    if past:
        fail("off by more: " + ", ".join(f"{case['system']} on {case['gpus']} GPUs, {case['error']:+.1%}" for case in past))


if __name__ == "__main__":
    main()
