"""Copies, casts, joining, indices and order in PyTorch. bench/command/sweep/moves.cpp is brim's side."""

import dataclasses

import torch
import torch.nn.functional as F

from compare.sweep.operands import DTYPES, forward, hashed, image_shape, leaf, operand, operand_shape, values
from compare.sweep.operands import with_training

CASTS = (
    ("f32", "bf16"),
    ("bf16", "f32"),
    ("f32", "f16"),
    ("f16", "f32"),
    ("f32", "i64"),
    ("i64", "f32"),
    ("f32", "u8"),
    ("u8", "f32"),
    ("f32", "bool"),
)
MOVES = {
    "contiguous": lambda x: x.contiguous(),
    "to-nhwc": lambda x: x.contiguous(memory_format=torch.channels_last),
    "clone": torch.clone,
    "flip": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(3, 1),
    "repeat": lambda x: x.repeat(1, 4),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "tril": torch.tril,
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "pad-reflect": lambda x: F.pad(x, (1, 1, 1, 1), "reflect"),
    "sort": torch.sort,
    "argsort": torch.argsort,
    "topk": lambda x: x.topk(5),
}


def move(function):
    return lambda case: forward(function, operand(case))


def cast(target):
    return lambda case: forward(lambda x: x.to(target), operand(case, "positive"))


def u8_images(case):
    x = values(image_shape(case.elements, 3), torch.uint8).contiguous(memory_format=torch.channels_last)
    return forward(lambda x: x.to(torch.float32, memory_format=torch.contiguous_format), x)


def join(function):
    def make(case):
        part = dataclasses.replace(case, elements=max(1, case.elements // 4))
        axis = 0 if case.layout == "dense" else 1
        return forward(lambda *parts: function(parts, axis), *(operand(part) for _ in range(4)))

    return make


def axis_of(case):
    return 0 if case.layout == "columns" else 1


def row_index(x):
    return hashed(x.shape[:1], x.shape[0])


def index_select(case):
    x = operand(case)
    return forward(lambda x, index: x.index_select(0, index), x, row_index(x))


def gather(case):
    x, axis = operand(case), axis_of(case)
    return forward(lambda x, index: x.gather(axis, index), x, hashed(x.shape, x.shape[axis]))


def embedding(case, run):
    rows, width = operand_shape(case.layout, case.elements)
    return run(F.embedding, hashed((rows,), 1000), leaf((1000, width), case.dtype))


def scatter(function):
    def make(case):
        x, axis = operand(case), axis_of(case)
        return forward(
            lambda x, index, source: function(x, axis, index, source), x, hashed(x.shape, x.shape[axis]), operand(case)
        )

    return make


def index_add(case):
    x = operand(case)
    return forward(lambda x, index, source: x.index_add(0, index, source), x, row_index(x), operand(case))


def unique(case):
    x = hashed((case.elements,), 1000).to(case.dtype)
    return forward(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)


def move_ops():
    return {
        **{name: move(function) for name, function in MOVES.items()},
        **{f"cast-{source}-{target}": cast(DTYPES[target]) for source, target in CASTS},
        "u8-images-to-f32": u8_images,
        "cat": join(torch.cat),
        "stack": join(torch.stack),
        "index_select": index_select,
        "gather": gather,
        **with_training("embedding", embedding),
        "masked_select": lambda case: forward(
            torch.masked_select, operand(case), hashed((case.elements,), 2).to(torch.bool)
        ),
        "nonzero": lambda case: forward(torch.nonzero, hashed((case.elements,), 2).to(torch.float32)),
        "one_hot": lambda case: forward(lambda x: F.one_hot(x, 100), hashed((max(1, case.elements // 100),), 100)),
        "scatter": scatter(torch.scatter),
        "scatter_add": scatter(torch.scatter_add),
        "index_add": index_add,
        "unique": unique,
    }
