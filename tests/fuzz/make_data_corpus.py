#!/usr/bin/env python3
"""Writes the seeds of image_fuzz, tar_fuzz, cifar_fuzz, idx_fuzz, arrays_fuzz, table_fuzz and labelled_fuzz into tests/fuzz/corpus. Needs Pillow and, for
the zstd seed, the zstd command. The seeds are a few kB in all; run it again only to change them."""

import gzip
import io
import json
import lzma
import struct
import subprocess
import tarfile
import zipfile
from pathlib import Path

from PIL import Image

CORPUS = Path(__file__).resolve().parent / "corpus"


def picture(mode, size=(8, 8)):
    image = Image.new(mode, size)
    bands = len(image.getbands())
    pixels = [tuple((x * 9 + y * 5 + 31 * c) % 256 for c in range(bands)) for y in range(size[1]) for x in range(size[0])]
    image.putdata(pixels if bands > 1 else [p[0] for p in pixels])
    return image


def encoded(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def tar(names, compress=lambda data: data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            data = encoded(picture("RGB", (2, 2)), format="PNG")
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return compress(out.getvalue()[: len(names) * 1024 + 1024])


def shard(fields):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in fields.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()[: len(fields) * 1024 + 1024]


def idx(magic, dimensions, data=b""):
    return b"".join(word.to_bytes(4, "big") for word in [magic, *dimensions]) + data


def mnist(flags, labels, images):
    return bytes([flags, len(labels)]) + labels + images


def arrays(tensors, metadata=None, data=b""):
    """A safetensors file; tensors: name -> (dtype, shape, begin, end)."""
    header = {"__metadata__": metadata} if metadata else {}
    for name, (dtype, shape, begin, end) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def npy(dtype, shape, data):
    """An array in NumPy's format, version 1."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-len(header) - 11 & 63) + "\n"
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header.encode() + data


def npz(arrays_by_name):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in arrays_by_name.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def with_size(jpeg, width, height):
    """The JPEG with another size in its frame header."""
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + jpeg[at + 4 :]


def hostile_tar(entries):
    """entries: (name, type, link, declared size)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, link, size in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            info.size = size
            archive.fileobj.write(info.tobuf(tarfile.GNU_FORMAT))
    return out.getvalue()[: len(entries) * 512 + 1024]


def main():
    jpeg = encoded(picture("RGB", (24, 17)), format="JPEG")
    files, links, hard = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
    two = {"labels": ("I64", [2], 0, 16), "images": ("U8", [2, 3, 2, 2], 16, 40)}
    both = {"train_images": ("U8", [1, 2, 2], 0, 4), "train_labels": ("U8", [1], 4, 5), "test_images": ("U8", [1, 2, 2, 1], 5, 9), "test_labels": ("U8", [1], 9, 10)}
    digits, pictures = idx(0x801, [2], bytes([3, 9])), idx(0x803, [2, 3, 4], bytes(range(24)))
    packed_digits, packed_pictures = gzip.compress(digits, mtime=0), gzip.compress(pictures, mtime=0)
    seeds = {
        "image/baseline.jpg": encoded(picture("RGB"), format="JPEG"),
        "image/progressive.jpg": encoded(picture("RGB", (17, 9)), format="JPEG", progressive=True),
        "image/grey.jpg": encoded(picture("L"), format="JPEG"),
        "image/cmyk.jpg": encoded(picture("CMYK"), format="JPEG"),
        "image/rgb.png": encoded(picture("RGB"), format="PNG"),
        "image/rgba.png": encoded(picture("RGBA"), format="PNG"),
        "image/grey.png": encoded(picture("L"), format="PNG"),
        "image/grey_alpha.png": encoded(picture("LA"), format="PNG"),
        "image/grey16.png": encoded(Image.new("I;16", (5, 3), 700), format="PNG"),
        "image/mask.png": encoded(picture("L").point(lambda x: x % 3).convert("P"), format="PNG", bits=2),
        "image/palette.png": encoded(picture("RGB").quantize(4), format="PNG"),
        "image/empty": b"",
        "image/truncated.jpg": jpeg[: len(jpeg) * 2 // 3],
        "image/header_only.jpg": jpeg[: jpeg.index(b"\xff\xda")],
        "image/no_end.jpg": jpeg[:-2],
        "image/65535x65535.jpg": with_size(jpeg, 65535, 65535),
        "image/taller.jpg": with_size(jpeg, 24, 200),
        "image/thin.jpg": with_size(jpeg, 1, 65535),
        "tar/split.tar": tar(["train/a/1.png", "test/b/2.png"]),
        "tar/flat.tar.gz": tar(["a/1.png", "b/2.png"], lambda d: gzip.compress(d, mtime=0)),
        "tar/outer.tar.xz": tar(["o/train/a/1.png", "o/val/a/2.png"], lzma.compress),
        "tar/flat.tar.zst": tar(["a/1.png"], lambda d: subprocess.run(["zstd", "-c"], input=d, stdout=subprocess.PIPE, check=True).stdout),
        "tar/shard.tar": shard({"0.jpg": b"x", "0.cls": b"3\n", "a/1.seg.png": b"x", "a/1.png": b"x", "a/1.cls": b"0"}),
        "tar/unpaired.tar": shard({"0.jpg": b"x", "0.cls": b"-1", "1.cls": b"2"}),
        "tar/traversal.tar": hostile_tar([("a/../../b/1.png", files, "", 0)]),
        "tar/absolute.tar": hostile_tar([("/etc/1.png", files, "", 0)]),
        "tar/symlink.tar": hostile_tar([("a/1.png", links, "/etc/passwd", 0)]),
        "tar/hardlink.tar": hostile_tar([("a/1.png", hard, "../1.png", 0)]),
        "tar/device.tar": hostile_tar([("a/1.png", tarfile.CHRTYPE, "", 0)]),
        "tar/terabytes.tar": hostile_tar([("a/1.png", files, "", 1 << 42)]),
        "tar/bomb.tar.gz": gzip.compress(bytes(8 << 20), mtime=0),
        "tar/bomb.tar.xz": lzma.compress(hostile_tar([("a/1.png", files, "", 4 << 20)])[:512] + bytes(4 << 20)),
        "arrays/two": arrays(two, {"classes": "cat\ndog"}, (1).to_bytes(8, "little") + bytes(8) + bytes(range(24))),
        "arrays/both": arrays(both, None, bytes([9, 8, 7, 6, 1, 5, 4, 3, 2, 0])),
        "arrays/terabytes": arrays({"images": ("U8", [1 << 40], 0, 1 << 40), "labels": ("U8", [1], 1 << 40, (1 << 40) + 1)}),
        "arrays/overflow": arrays({"images": ("U8", [1 << 32, 1 << 32, 3], 0, 0), "labels": ("U8", [0], 0, 0)}),
        "arrays/negative": arrays(two, None, b"\xff" * 16 + bytes(24)),
        "arrays/counts": arrays({"labels": ("U8", [3], 0, 3), "images": ("U8", [2, 2, 2], 3, 11)}, None, bytes(11)),
        "arrays/rank": arrays({"labels": ("U8", [2], 0, 2), "images": ("U8", [2, 2, 2, 1, 1], 2, 10)}, None, bytes(10)),
        "cifar/one": bytes([10, 3]) + bytes(3072),
        "cifar/cut": bytes([10, 3]) + bytes(100),
        "cifar/label": bytes([2, 7]) + bytes(3072),
        "idx/plain": mnist(0, digits, pictures),
        "idx/packed": mnist(7, packed_digits, packed_pictures),
        "idx/cut": mnist(3, packed_digits, packed_pictures[:-6]),
        "idx/checksum": mnist(3, packed_digits, packed_pictures[:-8] + bytes(8)),
        "idx/surplus": mnist(1, packed_digits, pictures + b"x"),
        "idx/count": mnist(4, idx(0x801, [1], b"\0"), pictures),
        "idx/gap": mnist(0, idx(0x801, [2], bytes([0, 12])), pictures),
        "idx/huge": mnist(0, digits, idx(0x803, [0xFFFFFFFF] * 3)),
        "labelled/labels": b"\1file,cat,dog\na.png,0,1\n",
        "labelled/splits": b'\2split,file,"x ""y"""\ntest,a.png,1.5\nval,a.png,2\n',
        "labelled/leaves": b"\0file,y\nb/../../a.png,1\n",
        "table/csv_classes": b"\x44a,b,kind\n1,2,cat\n-3.5,4e2,ant\n\n5,6,cat\r\n7,,ant\n",
        "table/csv_quotes": b'\x64\xef\xbb\xbf"a; b";y\n"1";"say ""x"""\n2;"two\nlines"\n',
        "table/csv_numbers": b"\x481,2\n3,4\nx,nan\n",
        "table/npy": b"\1" + npy("<f4", (2, 3), bytes(24)),
        "table/npy_huge": b"\1" + npy("<f8", (1 << 61, 8), b""),
        "table/npz": b"\2" + npz({"x.npy": npy("<f8", (2, 1), bytes(16)), "y.npy": npy("|u1", (2,), b"ab")}),
        "table/tokens": b"\x0bhello, world of tokens",
        "table/tokens_i32": b"\xc3" + struct.pack("<5i", 0, 1, 99, 3, -4),
        "idx/bomb": mnist(2, digits, gzip.compress(idx(0x803, [1, 64, 64], bytes(1 << 16)), mtime=0)),
    }
    for name, data in seeds.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()
