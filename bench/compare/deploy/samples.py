"""Files that `brim` writes, read without a package but NumPy."""

import json
import struct

import numpy

TYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "I32": numpy.int32, "I8": numpy.int8}
TYPES |= {"U8": numpy.uint8, "BOOL": numpy.bool_}


def read(path, names=None):
    """{name: array} of a safetensors file; of these names alone, and then nothing else takes memory."""
    tensors = {}
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        for name, about in json.loads(file.read(size)).items():
            if name == "__metadata__" or (names and name not in names):
                continue
            array = numpy.empty(about["shape"], TYPES[about["dtype"]])
            file.seek(8 + size + about["data_offsets"][0])
            if file.readinto(array.reshape(-1).view(numpy.uint8)) != array.nbytes:
                raise ValueError(f"{path} is cut")
            tensors[name] = array
    return tensors


def difference(found, expected):
    """The largest difference over the largest output."""
    if found.shape != expected.shape:
        return float("inf")
    wide = expected.astype(numpy.float64)
    return float(numpy.abs(found - wide).max() / max(numpy.abs(wide).max(), 1e-30))
