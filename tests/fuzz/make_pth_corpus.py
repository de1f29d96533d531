#!/usr/bin/env python3
"""Writes the seeds of pth_fuzz into tests/fuzz/corpus/pth: whole files, and pickles alone, which the target reads too."""

import io
import struct
import warnings
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


def twice(pickle):
    """Two entries of one name."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in [("data.pkl", pickle), ("data/0", bytes(32)), ("data/0", bytes(32))]:
            file.writestr(zipfile.ZipInfo("a/" + name), content)
    return out.getvalue()


def directory_entry(data, name):
    """Where the zip directory of `data` has the entry `name`."""
    return data.rindex(b"PK\1\2", 0, data.rindex(name))


def patched(data, at, value):
    return data[:at] + value + data[at + len(value) :]


def overlapping(data):
    """The storage's directory entry leads to the byte order's header, amid other entries."""
    first, second = directory_entry(data, b"a/byteorder"), directory_entry(data, b"a/data/0")
    return patched(data, second + 42, data[first + 42 : first + 46])


def claiming(data, size):
    """The storage's directory entry declares `size` bytes, in a zip64 record."""
    at = directory_entry(data, b"a/data/0")
    data = patched(data, at + 20, b"\xff" * 8)
    data = patched(data, at + 30, struct.pack("<H", 20))
    record = struct.pack("<HHQQ", 1, 16, size, size)
    end = at + 46 + len("a/data/0")
    data = data[:end] + record + data[end:]
    length = data.rindex(b"PK\5\6") + 12
    return patched(data, length, struct.pack("<I", struct.unpack_from("<I", data, length)[0] + 20))


def laughs(levels):
    """Dicts of two references to the dict before: 2^levels ways to one tensor."""
    out = b"\x80\x02}" + text(b"t") + tensor(b"K\x08", b"K\x08\x85", b"K\x01\x85") + b"sq\1"
    for level in range(levels):
        before = b"h" + bytes([level + 1])
        out += b"}(" + text(b"a") + before + text(b"b") + before + b"uq" + bytes([level + 2])
    return out + b"."


def shared(count):
    """`count` names of one tensor of 4 KiB."""
    wide = b"M" + struct.pack("<H", 1024)
    names = b"".join(text(b"%03d" % i) + b"h\1" for i in range(1, count))
    return archive(b"\x80\x02}(" + text(b"000") + tensor(wide, wide + b"\x85", b"K\1\x85") + b"q\1" + names + b"u.", bytes(4096))


def long_key(tensors):
    """A key of 64 KiB that each tensor's storage names."""
    storage = b"(" + text(b"storage") + b"ctorch\nFloatStorage\nh\1" + text(b"cpu") + b"K\x08tQ"
    return b"\x80\x02" + text(b"7" * 65536) + b"q\1" + storage * tensors + b"."


def main():
    eight = tensor(b"K\x08", b"K\x08\x85", b"K\x01\x85")
    view = tensor(b"K\x08", b"K\x02K\x03\x86", b"K\x01K\x02\x86")
    state = b"\x80\x02" + ORDERED + b"(" + text(b"a") + eight + text(b"b") + view + b"u}" + text(b"_metadata") + b"}sb."
    parameter = b"ctorch._utils\n_rebuild_parameter\n" + eight + b"\x88" + ORDERED + b"\x87R"
    nested = b"\x80\x02}(" + text(b"epoch") + b"K\x03" + text(b"state_dict") + b"}" + text(b"a") + parameter + b"su."
    named = b"\x8c\x0bcollections\x8c\x0bOrderedDict\x93\x94)R\x94"
    huge = tensor(b"\x8a\x08" + struct.pack("<q", 50_000_000_000), b"\x8a\x08" + struct.pack("<q", 50_000_000_000) + b"\x85", b"K\x01\x85")
    long = b"\x8a\x08" + struct.pack("<q", 1 << 50)
    terabytes = tensor(long, long + b"\x85", b"K\x01\x85")
    strided = tensor(b"K\x08", long + long + b"\x86", long + b"K\0\x86")
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
        "terabytes.pth": archive(b"\x80\x02}" + text(b"a") + terabytes + b"s."),
        "claim.pth": claiming(archive(b"\x80\x02}" + text(b"a") + huge + b"s."), 200_000_000_000),
        "overlap.pth": overlapping(archive(state)),
        "twice.pth": twice(state),
        "bomb.pth": archive(b"\x80\x02}" + text(b"a") + eight + b"s.", bytes(4 << 20), zipfile.ZIP_DEFLATED),
        "strides.pkl": b"\x80\x02}" + text(b"a") + strided + b"s.",
        "keys.pkl": b"\x80\x02}(" + text(b"a") + eight + text(b"a") + view + b"u.",
        "deep.pkl": b"\x80\x02" + b"]" * 4000 + b"a" * 3999 + b".",
        "deep_dicts.pkl": b"\x80\x02" + (b"}" + text(b"a")) * 2000 + b"}" + b"s" * 2000 + b".",
        "laughs.pkl": laughs(60),
        "laughs.pth": archive(laughs(60)),
        "shared.pth": shared(300),
        "long_key.pkl": long_key(200),
        "cycle.pkl": b"\x80\x02}q\1" + text(b"x") + b"h\1s]q\2h\2a(K\1K\2e0.",
    }
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (CORPUS / name).write_bytes(data)


if __name__ == "__main__":
    main()
