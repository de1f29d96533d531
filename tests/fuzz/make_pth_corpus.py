#!/usr/bin/env python3
"""Writes the seeds of pth_fuzz into tests/fuzz/corpus/pth: whole files, and pickles alone, which the target reads too."""

import io
import struct
import zipfile
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus/pth"
ORDERED = b"ccollections\nOrderedDict\n)R"


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def tensor(count, shape, strides, kind=b"Float"):
    storage = b"(" + text(b"storage") + b"ctorch\n" + kind + b"Storage\n" + text(b"0") + text(b"cpu") + count + b"tQ"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + shape + strides + b"\x89" + ORDERED + b"tR"


def archive(pickle, data=bytes(32), compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, content in {"data.pkl": pickle, "byteorder": b"little", "data/0": data, "version": b"3\n"}.items():
            file.writestr(zipfile.ZipInfo("a/" + name), content, compression)
    return out.getvalue()


def main():
    eight = tensor(b"K\x08", b"K\x08\x85", b"K\x01\x85")
    view = tensor(b"K\x08", b"K\x02K\x03\x86", b"K\x01K\x02\x86")
    state = b"\x80\x02" + ORDERED + b"(" + text(b"a") + eight + text(b"b") + view + b"u}" + text(b"_metadata") + b"}sb."
    parameter = b"ctorch._utils\n_rebuild_parameter\n" + eight + b"\x88" + ORDERED + b"\x87R"
    nested = b"\x80\x02}(" + text(b"epoch") + b"K\x03" + text(b"state_dict") + b"}" + text(b"a") + parameter + b"su."
    named = b"\x8c\x0bcollections\x8c\x0bOrderedDict\x93\x94)R\x94"
    huge = tensor(b"\x8a\x08" + struct.pack("<q", 50_000_000_000), b"\x8a\x08" + struct.pack("<q", 50_000_000_000) + b"\x85", b"K\x01\x85")
    seeds = {
        "state.pth": archive(state),
        "bool.pth": archive(b"\x80\x02}" + text(b"a") + tensor(b"K\x04", b"K\x04\x85", b"K\x01\x85", b"Bool") + b"s.", b"\0\1\1\0"),
        "compressed.pth": archive(state, compression=zipfile.ZIP_DEFLATED),
        "cut.pth": archive(state)[:-40],
        "huge.pth": archive(b"\x80\x02}" + text(b"a") + huge + b"s."),
        "state.pkl": state,
        "nested.pkl": nested,
        "protocol4.pkl": b"\x80\x04\x95" + struct.pack("<Q", len(named) + 1) + named + b".",
        "system.pkl": b"\x80\x02cposix\nsystem\n(" + text(b"true") + b"tR.",
        "cycle.pkl": b"\x80\x02}q\1" + text(b"x") + b"h\1s]q\2h\2a(K\1K\2e0.",
    }
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (CORPUS / name).write_bytes(data)


if __name__ == "__main__":
    main()
