#!/usr/bin/env python3
"""Compares `brim forecast` with published measurements of data parallel training.

Each case names GPUs, links, network and the images/s that one GPU was measured to train. The device's profile is scaled, its
peaks and its bandwidth alike, until the forecast for one GPU is that rate; then the forecast for all GPUs is compared with what
was measured there. So one number is fitted, on one GPU, and the scaling is what is tested. Links that are half as fast, and half
as fast again, show how much hangs on them.

Every forecast is simulated: no device is used.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from compare.files import file_name, write_text

# Of one GPU, from its data sheet. Links count one direction.
PROFILES = {
    "P100 SXM2 16GB": {"memory": 16, "bandwidth": 732, "peer": 80, "f32": 10.6, "f16": 21.2},
    "V100 SXM2 16GB": {"memory": 16, "bandwidth": 900, "peer": 150, "f32": 15.7, "f16": 125},
    "A100 SXM 80GB": {"memory": 80, "bandwidth": 2039, "peer": 300, "f32": 19.5, "f16": 312},
}
ONE_HOST = {"gpus": 8, "hosts": 1, "network": 100}
FOUR_HOSTS = {"gpus": 32, "hosts": 4, "network": 100}
DLPERF = "DLPerf v1.0 (Oneflow-Inc/DLPerf, reports): DDP of PyTorch 1.5, DALI, InfiniBand of 100 Gbit/s"
DDP = {"profile": "V100 SXM2 16GB", "model": "resnet50", "precision": "fp32", "batch": 128}
CASES = [
    {
        "source": "TensorFlow benchmarks, May 2017 (developers.googleblog.com): DGX-1, synthetic data, 219 images/s on one GPU",
        "profile": "P100 SXM2 16GB",
        "model": "resnet50",
        "precision": "fp32",
        "batch": 64,
        **ONE_HOST,
        "one": 219,
        "of_linear": 7.91 / 8,
    },
    {
        "source": "NVIDIA DeepLearningExamples, ResNet-50 v1.5 for PyTorch: DGX-1 16GB, 367 and 2855 images/s",
        "profile": "V100 SXM2 16GB",
        "model": "resnet50",
        "precision": "fp32",
        "batch": 64,
        **ONE_HOST,
        "one": 367,
        "of_linear": 2855 / 8 / 367,
    },
    {
        "source": "NVIDIA DeepLearningExamples, ResNet-50 v1.5 for PyTorch: DGX A100 80GB, TF32, 938 and 7248 images/s",
        "profile": "A100 SXM 80GB",
        "model": "resnet50",
        "precision": "tf32",
        "batch": 256,
        **ONE_HOST,
        "one": 938,
        "of_linear": 7248 / 8 / 938,
    },
    {
        "source": f"{DLPERF}: 354.40 and 2719.07 images/s",
        **DDP,
        **ONE_HOST,
        "one": 354.40,
        "of_linear": 2719.07 / 8 / 354.40,
    },
    {
        "source": f"{DLPERF}: 354.40 and 10632.33 images/s",
        **DDP,
        **FOUR_HOSTS,
        "one": 354.40,
        "of_linear": 10632.33 / 32 / 354.40,
    },
    {
        "source": f"{DLPERF}: of four times what one host of 8 trains, 2719.07 images/s, 10632.33",
        **DDP,
        **FOUR_HOSTS,
        "one": 2719.07 / 8,
        "of_linear": 10632.33 / 4 / 2719.07,
    },
    {
        "source": "Horovod's docs/benchmarks: 128 servers of 4 Pascal GPUs, 25 Gbit/s RoCE, 1657 images/s on 16 GPUs, 90 % of linear",
        "profile": "P100 SXM2 16GB",
        "model": "resnet101",
        "precision": "fp32",
        "batch": 64,
        "gpus": 512,
        "hosts": 128,
        "network": 25,
        "one": 1656.82 / 16,
        "of_linear": 0.90,
    },
]


def fail(message):
    print(f"forecast_published: {message}", file=sys.stderr)
    raise SystemExit(1)


def write_profile(path, name, scale, link):
    p = PROFILES[name]
    text = f'name = "{name}"\nsource = "data sheet"\nmemory_gb = {p["memory"]}\nbandwidth_gb_s = {p["bandwidth"] * scale}\n'
    text += f'host_link_gb_s = 16\npeer_link_gb_s = {p["peer"] * link}\nlink_delay_us = 8\nlaunch_us = 4\nkernel_us = 2.5\n'
    text += f'[peak_tflops]\nf32 = {p["f32"] * scale}\nf64 = 5\nf16 = {p["f16"] * scale}\nbf16 = {p["f16"] * scale}\ni8 = 100\n'
    text += "[thermal]\nidle_w = 50\npeak_w = 300\nambient_c = 30\nwarmth_c_per_w = 0.13\nsettling_s = 60\nthrottle_c = 85\nthrottle_clock = 0.6\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def forecast(options, folder, case, scale, link):
    """The rows of one GPU and of all of them, with overlap."""
    profile, recipe, result = (os.path.join(folder, name) for name in ("profile.toml", "recipe.toml", "result.json"))
    write_profile(profile, case["profile"], scale, link)
    with open(recipe, "w", encoding="utf-8") as file:
        file.write(f'model = "{case["model"]}"\n[input]\nsize = 224\n[optimizer]\nname = "sgd"\nlr = 0.1\nmomentum = 0.9\n')
    command = [options.brim, "forecast", recipe, "--profile", profile, "--batch", str(case["batch"]), "--ranks", str(case["gpus"])]
    command += ["--hosts", str(case["hosts"]), "--network", str(case["network"] * link), "--precision", case["precision"]]
    done = subprocess.run([*command, "--json", result], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
    with open(result, encoding="utf-8") as file:
        rows = json.load(file)["forecasts"]
    all_gpus = [row for row in rows if row["ranks"] == case["gpus"] and row["overlap"]]
    return rows[0], all_gpus[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brim", default="build/bin/brim", help="the command (default: %(default)s)")
    parser.add_argument("--json", type=file_name, help="write all numbers to a file")
    options = parser.parse_args()
    report = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            scale = 1.0
            for _ in range(6):
                scale *= case["one"] / forecast(options, folder, case, scale, 1)[0]["images_per_s"]
            shares = {link: forecast(options, folder, case, scale, link)[1]["of_linear"] for link in (1, 0.5, 1.5)}
            error = shares[1] / case["of_linear"] - 1
            report.append({**case, "scale": scale, "forecast": {str(link): share for link, share in shares.items()}, "error": error})
            print(
                f"{case['gpus']} x {case['profile']}, {case['model']} {case['precision']} b{case['batch']}: measured "
                f"{case['of_linear']:.1%} of linear, forecast {shares[1]:.1%} ({error:+.1%}); links half as fast {shares[0.5]:.1%}, "
                f"half as fast again {shares[1.5]:.1%}; one GPU is {scale:.2f} times its data sheet\n  {case['source']}",
                flush=True,
            )
    if options.json:
        write_text(options.json, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
