#!/usr/bin/env python3
"""What an epoch costs on devices that are not here: a Markdown table, by `brim forecast`.

    price_per_epoch.py BRIM --samples 1281167 --price t4=0.35 --price a100:8=1.10 [RECIPE] [option of brim forecast...]

--price DEVICE[:RANKS]=PRICE is what one device costs for an hour, in any currency; DEVICE is what `brim forecast --device` takes.
Forecasts are what brim's plan does at the data sheet's peaks: a lower bound of the time and so of the price. The two columns at
the right show them for kernels at 40 and at 80 % of the peaks, which is what real ones reach."""
import argparse
import json
import re
import subprocess
import sys

# Real kernels reach so much of the data sheet's peaks (docs/CLUSTER.md).
LOW, HIGH = 0.4, 0.8


def parse_price(text):
    found = re.fullmatch(r"([^=:]+)(?::(\d+))?=(\d+(?:\.\d+)?)", text)
    if not found or int(found[2] or 1) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': write DEVICE=PRICE or DEVICE:RANKS=PRICE, as a100:8=1.10")
    return found[1], int(found[2] or 1), float(found[3])


def forecast(brim, recipe, samples, device, ranks, price, more):
    command = [brim, "forecast", recipe, "--device", device, "--ranks", str(ranks), "--samples", str(samples), "--price", str(price)]
    run = subprocess.run([*command, "--json", "-", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"{device}: {run.stderr.strip()}")
    found = json.loads(run.stdout)
    row = next(r for r in found["forecasts"] if r["ranks"] == ranks and (r["overlap"] or ranks == 1))
    return found, row


def duration(seconds):
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("brim")
    parser.add_argument("recipe", nargs="?", default="resnet18")
    parser.add_argument("--samples", type=int, required=True, help="of an epoch")
    parser.add_argument("--price", type=parse_price, action="append", required=True, help="DEVICE[:RANKS]=PRICE, several times")
    args, more = parser.parse_known_args()
    print("| device | a device for an hour | images/s, at most | an epoch, at least | price of an epoch, at least "
          f"| at {HIGH:.0%} of the peaks | at {LOW:.0%} |\n| --- | --- | --- | --- | --- | --- | --- |")
    for device, ranks, price in args.price:
        found, row = forecast(args.brim, args.recipe, args.samples, device, ranks, price, more)
        cost = row["epoch_cost"]
        name = found["device"] if ranks == 1 else f"{ranks} x {found['device']}"
        print(f"| {name} | {price:g} | {row['images_per_s']:.0f} | {duration(row['epoch_seconds'])} | {cost:.3g} "
              f"| {cost / HIGH:.3g} | {cost / LOW:.3g} |")


if __name__ == "__main__":
    main()
