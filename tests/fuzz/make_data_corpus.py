#!/usr/bin/env python3
"""Writes the seeds of image_fuzz, tar_fuzz, cifar_fuzz and idx_fuzz into tests/fuzz/corpus. Needs Pillow and, for
the zstd seed, the zstd command. The seeds are a few kB in all; run it again only to change them."""

import gzip
import io
import lzma
import subprocess
import tarfile
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


def main():
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
        "image/palette.png": encoded(picture("RGB").quantize(4), format="PNG"),
        "image/empty": b"",
        "tar/split.tar": tar(["train/a/1.png", "test/b/2.png"]),
        "tar/flat.tar.gz": tar(["a/1.png", "b/2.png"], lambda d: gzip.compress(d, mtime=0)),
        "tar/outer.tar.xz": tar(["o/train/a/1.png", "o/val/a/2.png"], lzma.compress),
        "tar/flat.tar.zst": tar(["a/1.png"], lambda d: subprocess.run(["zstd", "-c"], input=d, stdout=subprocess.PIPE, check=True).stdout),
        "tar/shard.tar": shard({"0.jpg": b"x", "0.cls": b"3\n", "a/1.seg.png": b"x", "a/1.png": b"x", "a/1.cls": b"0"}),
        "tar/unpaired.tar": shard({"0.jpg": b"x", "0.cls": b"-1", "1.cls": b"2"}),
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
        "idx/bomb": mnist(2, digits, gzip.compress(idx(0x803, [1, 64, 64], bytes(1 << 16)), mtime=0)),
    }
    for name, data in seeds.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()
