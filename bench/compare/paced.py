"""Recipes of small pictures, and what brim says of them, on virtual accelerators that keep a profile's pace."""

import json
import os
import statistics
import subprocess

from compare.files import write_text

AHEAD = 8  # how many times as long a step takes as the CPU needs for it

RECIPE = """
model = "{model}"
data = "shapes10"
epochs = {epochs}
batch = {batch}

[input]
size = 32
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]

[optimizer]
name = "sgd"
lr = 0.001
momentum = 0.9
"""


class Refused(Exception):
    """brim ended with an error."""


def run(brim, arguments, **environment):
    """The JSON that brim writes."""
    done = subprocess.run(
        [brim, *arguments, "--json", "-"], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    if done.returncode != 0:
        raise Refused(f"brim {' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def write_recipe(path, model, batch, epochs=1):
    with open(path, "w", encoding="utf-8") as file:
        file.write(RECIPE.format(model=model, batch=batch, epochs=epochs))
    return path


def seconds_per_step(brim, recipe, devices="sim:0", options=(), **environment):
    """By `brim doctor`: three short trainings, in which the device is full."""
    found = run(brim, ["doctor", recipe, "--device", devices, *options], **environment)
    return found["before"]["seconds_per_step"]["value"]


def tell_errors(rows, what, path, simulated=True):
    """Prints the median and the worst distance of measured from predicted times; `path`: a file for all cases, or empty."""
    errors = [abs(row["ratio"] - 1) for row in rows]
    kind = "simulated: " if simulated else ""
    print(f"{kind}{len(rows)} cases, {what}: median {100 * statistics.median(errors):.2f} %, worst {100 * max(errors):.2f} %")
    if path:
        write_text(path, json.dumps({"simulated": simulated, "cases": rows}, indent=1) + "\n")
