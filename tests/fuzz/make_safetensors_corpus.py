#!/usr/bin/env python3
"""Writes the hostile seeds of safetensors_fuzz and recipe_fuzz into tests/fuzz/corpus."""

import json
import struct
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"


def file_of(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape, begin, end, dtype="U8"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def main():
    dotted = b".".join([b"a"] * 40000) + b" = 1"
    recipe = "epochs = 2\n[optimizer]\nname = 'adam'\nlr = 0.001\n"
    two = b'{"a":' + json.dumps(entry([2], 0, 2)).encode() + b',"a":' + json.dumps(entry([2], 2, 4)).encode() + b"}"
    seeds = {
        "terabytes": file_of({"a": entry([1 << 42], 0, 1 << 42)}, bytes(8)),
        "length": file_of(b"{}", length=(1 << 63) + 2),
        "overlap": file_of({"a": entry([4], 0, 4), "b": entry([4], 2, 6)}, bytes(6)),
        "unsorted": file_of({"b": entry([2], 2, 4), "a": entry([2], 0, 2)}, bytes(4)),
        "backwards": file_of({"a": entry([4], 4, 0)}, bytes(4)),
        "keys": file_of(two, bytes(4)),
        "deep": file_of(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        "deep_objects": file_of(b'{"a":' * 3000 + b"1" + b"}" * 3000),
        "zero": file_of({"a": entry([0, 1 << 62, 1 << 62], 0, 0)}),
        "rank": file_of({"a": entry([1] * 100, 0, 1)}, b"x"),
        "nul": file_of(b"{}\0garbage"),
        "recipe": file_of({"__metadata__": {"format": "pt", "brim.recipe": recipe, "brim.name": "r"}, "a": entry([1], 0, 1)}, b"x"),
        "deep_recipe": file_of({"__metadata__": {"brim.recipe": dotted.decode()}}),
    }
    for name, data in seeds.items():
        (CORPUS / "safetensors" / name).write_bytes(data)
    recipes = {
        "deep.toml": b"mean = " + b"[" * 3000 + b"]" * 3000,
        "deep_tables.toml": b"a = " + b"{a = " * 1000 + b"1" + b"}" * 1000,
        "dotted.toml": dotted,
        "dotted_header.toml": b"[" + dotted[:1999] + b"]",
        "twice.toml": b"epochs = 1\nepochs = 2\n",
    }
    for name, data in recipes.items():
        (CORPUS / "recipe" / name).write_bytes(data)


if __name__ == "__main__":
    main()
