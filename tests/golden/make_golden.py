#!/usr/bin/env python3
"""Writes tests/golden/data/* from PyTorch: `python tests/golden/make_golden.py [FAMILY...]`.

The files are committed; run this only to add cases or to move to another PyTorch release. Same PyTorch, same bytes.
"""

import pathlib
import sys

import torch

import pth
import recurrent
import resnet
import training
import transformer
import vgg
from cases import elementwise, layers, losses, movement, optimizers, reduce
from goldenlib import Family

FAMILIES = {
    "unary": elementwise.unary,
    "binary": elementwise.binary,
    "reduce": reduce.reduce,
    "softmax": reduce.softmax,
    "matmul": layers.matmul,
    "conv": layers.conv,
    "pool": layers.pool,
    "norm": layers.norm,
    "attention": layers.attention,
    "embedding": layers.embedding,
    "loss": losses.loss,
    "shape": movement.shape,
    "index": movement.index,
    "sort": movement.sort,
    "create": movement.create,
    "init": optimizers.initial,
    "optim": optimizers.optim,
    "schedule": optimizers.schedule,
    "clip": optimizers.clip,
}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    others = {
        "train": training.write,
        "pth": pth.write,
        "recurrent": recurrent.write,
        "resnet": resnet.write,
        "transformer": transformer.write,
        "vgg": vgg.write,
    }
    names = sys.argv[1:] or [*FAMILIES, *others]
    for name in names:
        if name in others:
            paths = others[name](folder)
        elif name in FAMILIES:
            family = Family(name)
            FAMILIES[name](family)
            paths = [family.write(folder)]
        else:
            sys.exit(f"make_golden: no family named {name!r}; there are: {', '.join([*FAMILIES, *others])}")
        for path in paths:
            print(f"{path.stat().st_size:>9} {path.name}")


if __name__ == "__main__":
    main()
