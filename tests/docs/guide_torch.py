#!/usr/bin/env python3
"""The PyTorch of docs/COMING_FROM.md runs where PyTorch is: what stands behind the word PyTorch in the chapter on GPUs, the
lines of its CIFAR-10 tutorial, and the left column of each table of names.

    guide_torch.py DOCUMENT

A piece of code runs if it does so with one of the sets of variables that scopes() makes. What asks for GPUs, other processes or
data sets is looked up and not called. Ends with 77 where there is no PyTorch."""
import ast
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import warnings

from examples_test import CELLS, CODE, TABLE

try:
    import torch
except ImportError:
    print("no PyTorch")
    sys.exit(77)

SAID = re.compile(r"(MXNet|PyTorch|TensorFlow) ((?:(?:, | and |, and )?`[^`]+`)+)")
WRITTEN = re.compile(r"`((?:[^`\n]*\b(?:torch|transforms|nn|optim|F)\.\w|DataLoader\()[^`\n]*)`")
# Not called.
ASKS_MORE = re.compile(r"\bcuda\b|^e\.|^s\.wait|\.record_stream|pin_memory|\bdist\.|DistributedDataParallel|\bdatasets\.")
# Python's shorthands of a page: what a fragment is a part of.
WHOLE = ["{}", "torch.zeros(2, 3, {})", "DataLoader(d, {})", "nn.MultiheadAttention(8, 2)(sequence, sequence, sequence, {})"]


def shared_names():
    """Modules as a reader imports them. Those that are not installed are left out."""
    names = {}
    for line in ("import torch", "from torch import nn, optim", "import torch.nn.functional as F", "import torch.distributed as dist",
                 "from torch.optim import lr_scheduler", "from torch.nn.parallel import DistributedDataParallel",
                 "from torch.utils.data import *", "import torchvision", "from torchvision import datasets, transforms",
                 "from torchvision.transforms import Normalize, ToTensor",
                 "import safetensors.torch", "import onnx", "import onnxscript", "from torch.utils.tensorboard import SummaryWriter"):
        with contextlib.suppress(ImportError):
            exec(line, names)
    return names


NAMES = shared_names()
NEEDS = {"torchvision": "torchvision", "datasets.": "datasets", "transforms.": "transforms", "safetensors.": "safetensors",
         "torch.onnx": "onnxscript", "SummaryWriter": "SummaryWriter"}


def try_gpu(i=0):
    """As the chapter defines it."""
    return torch.device(f"cuda:{i}") if torch.cuda.device_count() > i else torch.device("cpu")


def variables(**others):
    """What pieces take for granted, with some replaced by others."""
    nn, data = torch.nn, torch.utils.data
    x = torch.arange(6.0).reshape(2, 3) / 6
    index = torch.zeros(2, 3, dtype=torch.int64)
    net = nn.Sequential(nn.Linear(3, 1))
    loss = net(torch.ones(1, 3)).sum()
    loss.backward(retain_graph=True)
    d = data.TensorDataset(torch.ones(10, 3), torch.ones(10))
    there = {"x": x, "y": x.clone(), "X": x, "Z": x, "w": torch.ones(4), "b": torch.ones(4), "i": index, "t": index, "a": x.numpy(),
             "inputs": x, "outputs": x, "sequence": torch.ones(2, 4, 8), "mean": [0.5] * 3, "std": [0.5] * 3, "net": net, "model": net,
             "p": list(net.parameters()), "loss": loss, "o": torch.optim.SGD(net.parameters(), lr=0.1), "s": net.state_dict(), "state": {},
             "d": d, "trainset": d, "loader": data.DataLoader(d), "criterion": nn.MSELoss(), "device": torch.device("cpu"),
             "try_gpu": try_gpu, "f": lambda *_: None, "n": "name", "path": "data"}
    there.update(others)
    return {**NAMES, **there, "mask": there["x"] > 0, "c": there["x"] > 0}


def scopes():
    """Sets of variables, made anew: code changes them."""
    ones, matrix = torch.ones, torch.eye(3)
    yield variables()
    yield variables(w=ones(4, 3), t=torch.zeros(2, dtype=torch.int64), p=torch.full((2, 3), 0.5), d="cpu", m=torch.zeros(3), v=ones(3))
    yield variables(q=ones(1, 2, 4, 8), k=ones(1, 2, 4, 8), v=ones(1, 2, 4, 8), f="file")
    yield variables(x=matrix, y=matrix, w=matrix, b=ones(3), i=torch.tensor([0, 1, 2]), t=ones(3, 3), f=lambda epoch: 1.0)
    yield variables(x=ones(1), y=ones(1), w=ones(5), b=ones(1), i=torch.tensor([0]), n=5)
    yield variables(x=torch.arange(4.0), y=torch.arange(4.0), i=torch.tensor([0, 1]))
    picture, sequence = ones(2, 4, 8, 8), ones(2, 4, 8)
    yield variables(x=picture, y=picture, w=ones(4, 4, 3, 3), i=torch.zeros(2, 1, 1, 1, dtype=torch.int64), t=picture)
    yield variables(x=sequence, y=sequence.transpose(1, 2), w=ones(6, 4, 3), b=ones(6))
    yield variables(x=ones(2, 8), y=ones(2, 8), w=ones(4, 8))
    bools = ones(2, 3, dtype=torch.bool)
    yield variables(x=bools, y=bools)
    leaf = ones(3, 3, requires_grad=True)
    yield variables(x=leaf, y=leaf, loss=(leaf**2).sum())
    yield variables(x=ones(2, 2, requires_grad=True, dtype=torch.float64), f=lambda z: (z**2).sum())
    yield variables(x=torch.nn.Parameter(matrix))
    plain = variables()
    for s in (torch.optim.lr_scheduler.StepLR(plain["o"], 30), torch.amp.GradScaler("cpu"), plain["o"].state_dict()):
        yield {**plain, "s": s}
    yield variables(x=ones(1, 3), s={"x": matrix}, f="net.onnx")


def statements(code):
    """How a piece may be meant: by itself, or as options of a call."""
    code = code.replace("\\|", "|").replace("{...}", "{'params': [torch.nn.Parameter(torch.ones(1))]}").replace("nn.Module.", "net.")
    code = code.replace("self.gpus[0]", "try_gpu()").replace("d2l.to", "torch.Tensor.to")
    owner = re.match(r"([\w.]+)\.\w+\(", code)
    if owner:
        code = re.sub(r", \.(?=\w)", f", {owner[1]}.", code)
    if code.endswith(":"):
        code += " pass"
    elif code.startswith("for "):
        code += ": break"
    elif code.startswith(("with ", "class ")):
        code += ": pass"
    code = re.sub(r"=(?=,|$)", "=None", code)
    return [whole.format(code) if whole != "{}" else code for whole in WHOLE]


def parts(code):
    """Of `x.add_(y), x += y` both: what stands between commas outside of brackets."""
    if code.startswith(("_, ", "for ")):
        return [code]
    found, depth = [""], 0
    for character in code:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found]


def runs_in_one(statement):
    """"" where it runs with one set of variables, else what is wrong with it."""
    reasons = []
    for scope in scopes():
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                for part in parts(statement):
                    exec(part, scope)
            return ""
        except Exception as e:  # noqa: BLE001: these may be the wrong ones
            reasons.append(f"{type(e).__name__}: {str(e).partition(chr(10))[0]}")
    return "; ".join(dict.fromkeys(reasons))


def runs(code):
    """The same of all that a piece may be meant as: together, each part by itself, options of a call."""
    alone, *options = statements(code)
    wrong = runs_in_one(alone)
    if wrong and any(not runs_in_one(option) for option in options):
        return ""
    return "; ".join(filter(None, map(runs_in_one, parts(alone)))) if wrong else ""


def is_known(code):
    """"" where all attributes are there, else the one that is not."""
    roots = {**variables(), "e": torch.cuda.Event, "s": torch.cuda.Stream}
    for part in parts(statements(code)[0]):
        for node in ast.walk(ast.parse(part)):
            path = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            root, *names = path.split(".")
            if not re.fullmatch(r"\w+(\.\w+)+", path) or root not in roots:
                continue
            value = roots[root]
            for name in names:
                if not hasattr(value, name):
                    return f"there is no {path}"
                value = getattr(value, name)
    return ""


def pieces_of(text):
    """(line, code) of all PyTorch in a document."""
    said = {"MXNet": {}, "PyTorch": {}, "TensorFlow": {}}
    for found in SAID.finditer(text):
        said[found[1]].update({found.start(2) + code.start(1): code[1] for code in CODE.finditer(found[2])})
    prose = re.sub(r"^\|.*", lambda row: " " * len(row[0]), text, flags=re.M)
    written = {code.start(1): code[1] for code in WRITTEN.finditer(prose)
               if "::" not in code[1] and code.start(1) not in said["MXNet"] | said["TensorFlow"]}
    for at, code in sorted((said["PyTorch"] | written).items()):
        yield text.count("\n", 0, at) + 1, code
    for table in TABLE.finditer(text):
        first = text.count("\n", 0, table.start("rows")) + 1
        for n, row in enumerate(table["rows"].splitlines()[2:], 2):
            for code in CODE.findall(CELLS.split(row)[1]):
                yield first + n, code


def main():
    document = pathlib.Path(sys.argv[1])
    text = document.read_text()
    warnings.simplefilter("ignore")
    failed = looked_up = skipped = total = 0
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        pathlib.Path("file").touch()
        for line, code in pieces_of(text):
            total += 1
            if any(root in code and name not in NAMES for root, name in NEEDS.items()):
                skipped += 1
                continue
            only_known = ASKS_MORE.search(code)
            looked_up += bool(only_known)
            wrong = is_known(code) if only_known else runs(code)
            if wrong:
                failed += 1
                print(f"{document}:{line}: `{code}` does not run in PyTorch {torch.__version__}: {wrong}")
        os.chdir("/")
    print(f"{total} pieces of PyTorch {torch.__version__}: {total - looked_up - skipped - failed} ran, {looked_up} were looked up, "
          f"{skipped} need a package that is not here, {failed} failed")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
