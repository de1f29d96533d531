#!/usr/bin/env python3
"""The PyTorch of docs/COMING_FROM.md runs where PyTorch is: what stands behind the word PyTorch in the chapter on GPUs, the
lines of its CIFAR-10 tutorial, and the left column of each table of names.

    guide_torch.py DOCUMENT

A piece of code runs if it does so with the variables of one of CONTEXTS. Where there is no GPU, what is asked of one is looked
up and not called. Ends with 77 where there is no PyTorch."""
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
# Looked up, not called: where there is no GPU; where there is no group of processes, and no data set.
ASKS_A_GPU = re.compile(r"\bcuda\b|^e\.|^s\.wait|\.record_stream|pin_memory")
ASKS_MORE = re.compile(r"\bdist\.|DistributedDataParallel|\bdatasets\.")
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


def variables(x, y, w, b, i, t, **more):
    nn, data = torch.nn, torch.utils.data
    net = nn.Sequential(nn.Linear(3, 1))
    p = list(net.parameters())
    loss = net(torch.ones(1, 3)).sum()
    loss.backward(retain_graph=True)
    o = torch.optim.SGD(net.parameters(), lr=0.1)
    d = data.TensorDataset(torch.ones(10, 3), torch.ones(10))
    there = {"x": x, "y": y, "w": w, "b": b, "i": i, "t": t, "p": p, "trainset": d, "net": net, "model": net, "loss": loss, "o": o, "d": d,
             "loader": data.DataLoader(d), "mask": x > 0, "c": x > 0, "device": torch.device("cpu"), "path": "data", "f": "file", "n": "name",
             "s": net.state_dict(), "state": {}, "sequence": torch.ones(2, 4, 8), "try_gpu": try_gpu, "a": x.detach().numpy(),
             "mean": [0.5] * 3, "std": [0.5] * 3, "inputs": torch.ones(2, 3), "outputs": torch.ones(2, 3), "criterion": nn.MSELoss()}
    return {**NAMES, **there, **more}


def contexts():
    """Sets of variables, made anew: code changes them."""
    matrix = lambda: torch.arange(6.0).reshape(2, 3) / 6  # noqa: E731
    square = lambda n, **k: torch.eye(n, **k)  # noqa: E731
    lr = torch.optim.lr_scheduler
    index = torch.zeros(2, 3, dtype=torch.int64)
    yield variables(matrix(), matrix(), torch.ones(4, 3), torch.ones(4), index, index[:, 0], p=torch.full((2, 3), 0.5), device="cpu", q=torch.ones(1, 2, 4, 8),
                    k=torch.ones(1, 2, 4, 8), v=torch.ones(1, 2, 4, 8), m=torch.zeros(3), X=matrix(), Z=matrix(), d=torch.device("cpu"), f=lambda *_: None)
    yield variables(torch.ones(1), torch.ones(1), torch.ones(5), torch.ones(1), torch.tensor([0]), torch.tensor([0]), n=5)
    yield variables(square(3), square(3), square(3), torch.ones(3), torch.tensor([0, 1, 2]), torch.ones(3, 3), f=lambda e: 1.0, v=torch.ones(3), m=torch.zeros(3))
    picture = torch.ones(2, 4, 8, 8)
    yield variables(picture, picture, torch.ones(4, 4, 3, 3), torch.ones(4), torch.zeros(2, 1, 1, 1, dtype=torch.int64), torch.ones(2, 4, 8, 8))
    yield variables(torch.ones(2, 4, 8), torch.ones(2, 8, 4), torch.ones(6, 4, 3), torch.ones(6), index, index)
    yield variables(torch.ones(2, 8), torch.ones(2, 8), torch.ones(4, 8), torch.ones(4), index, index, v=torch.ones(8), m=torch.zeros(8))
    bools = torch.ones(2, 3, dtype=torch.bool)
    yield variables(bools, bools, bools, bools, index, index)
    leaf = torch.ones(3, 3, requires_grad=True)
    yield variables(leaf, leaf, leaf, leaf, torch.zeros(3, 3, dtype=torch.int64), index, loss=(leaf**2).sum(), f=lambda g: None)
    precise = torch.ones(2, 2, requires_grad=True, dtype=torch.float64)
    yield variables(precise, precise, precise, precise, index, index, f=lambda z: (z**2).sum())
    vector = torch.arange(4.0)
    yield variables(vector, vector, torch.ones(4), torch.ones(4), torch.tensor([0, 1]), torch.tensor([0, 1]))
    plain = variables(matrix(), matrix(), torch.ones(4), torch.ones(4), index, index)
    yield {**plain, "s": lr.StepLR(plain["o"], 30), "f": lambda module, *_: None}
    scaler = torch.amp.GradScaler("cpu")
    plain = variables(matrix(), matrix(), torch.ones(4), torch.ones(4), index, index)
    yield {**plain, "s": scaler}
    plain = variables(matrix(), matrix(), torch.ones(4), torch.ones(4), index, index)
    yield {**plain, "s": plain["o"].state_dict(), "n": "new", "x": torch.nn.Parameter(matrix())}
    yield variables(torch.ones(1, 3), matrix(), torch.ones(4), torch.ones(4), index, index, s={"x": matrix()}, f="net.onnx")


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
    for scope in contexts():
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
    """"" where all names that hang on modules are there, else the one that is not."""
    for part in parts(statements(code)[0]):
        for node in ast.walk(ast.parse(part)):
            path = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            root, _, rest = path.partition(".")
            if not re.fullmatch(r"\w+(\.\w+)+", path) or root not in NAMES:
                continue
            value = NAMES[root]
            for name in rest.split("."):
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
            only_known = (ASKS_A_GPU.search(code) and not torch.cuda.is_available()) or ASKS_MORE.search(code)
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
