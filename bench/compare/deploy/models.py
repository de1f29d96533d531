"""What is measured: a model's weights, samples and files in each side's format, made by the command `brim`."""

import importlib.util
import json
import os
import subprocess
import sys

from compare.command import fail
from compare.deploy import samples


def run_brim(brim, *words):
    """-> (exit code, standard output, its one line of error)"""
    done = subprocess.run([brim, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr.strip().removeprefix("brim: error: ")


def export(brim, source, out, *words):
    """-> (path, None) or (None, why not)"""
    code, _, error = run_brim(brim, "export", *source, *words, "-o", out, "--overwrite")
    return (out, None) if code == 0 else (None, error.splitlines()[-1] if error else f"it ended with {code}")


def find_pnnx():
    """ncnn's converter, of the package pnnx."""
    beside = os.path.join(os.path.dirname(sys.executable), "pnnx")
    return beside if os.path.exists(beside) else None


def convert_ncnn(onnx, about, folder):
    """-> (path without .param and .bin, None) or (None, why not)"""
    if importlib.util.find_spec("ncnn") is None:
        return None, "ncnn is not installed"
    if about["precision"] == "int8":
        return None, "its converter reads no QDQ"
    if about["task"] == "language":
        return None, "its converter takes no tokens"
    pnnx = find_pnnx()
    if pnnx is None:
        return None, f"its converter is missing; install it: {sys.executable} -m pip install pnnx"
    shape = ",".join(map(str, (1, *about["input"])))
    words = [pnnx, onnx, f"inputshape=[{shape}]", "fp16=0"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    path = onnx.removesuffix(".onnx") + ".ncnn"
    if not all(os.path.exists(path + kind) for kind in (".param", ".bin")):
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [""]
        return None, f"pnnx ended with {done.returncode}: {last[0][:200]}"
    return path, None


def prepare(options, name, precision, folder):
    """Files and samples of a network by name, or of --weights where `name` is None. -> what is known of it; "files" has
    the paths, "absent" why a side has none."""
    os.makedirs(folder, exist_ok=True)
    batches = ",".join(map(str, options.batch))
    which = [name] if name else ["--weights", options.weights]
    if not name and options.recipe:
        which += ["--recipe", options.recipe]
    code, text, error = run_brim(
        options.brim, "bench", "deploy", *which, "--samples", folder, "--precision", precision, "--batch", batches
    )
    if code:
        fail(error)
    about = json.loads(text)
    about["precision"] = ("int8" if about["int8_layers"] else "fp32") if not name else precision
    source = ["--weights", about["weights"]]
    if not name and options.recipe:
        source += ["--recipe", options.recipe, "--input", "x".join(map(str, about["input"]))]
    files, absent = {"weights": about["weights"]}, {}
    onnx, error = export(options.brim, source, os.path.join(folder, "model.onnx"), "--onnx")
    if onnx is None:
        fail(f"{about['model']}: {error}")
    files["onnx"] = onnx
    files["engine"], absent["brim"] = export(
        options.brim, source, os.path.join(folder, "model.brim"), "--batch", batches
    )
    files["ncnn"], absent["ncnn"] = convert_ncnn(onnx, about, folder)
    about["files"], about["absent"] = files, {side: why for side, why in absent.items() if why}
    return about


def load_samples(about, batch):
    """-> (input, brim's output)"""
    names = f"{batch}:input", f"{batch}:output"
    tensors = samples.read(about["samples"], names)
    return tuple(tensors[name] for name in names)


def file_bytes(about, side):
    """Of what the side reads."""
    files = about["files"]
    if side == "ncnn":
        return sum(os.path.getsize(files["ncnn"] + kind) for kind in (".param", ".bin"))
    kind = {"brim": "engine", "torch": "weights"}.get(side, "onnx")
    return os.path.getsize(files[kind])
