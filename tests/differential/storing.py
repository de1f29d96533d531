"""The file of draws: safetensors with two tensors of bytes, `draws` (JSON, a line each) and `data` (inputs and results)."""

import json


def write_draws(path, described):
    lines, blobs = [], []
    for text, data in described:
        lines.append(json.dumps(text, separators=(",", ":")) + "\n")
        blobs.append(data)
    draws, data = "".join(lines).encode(), b"".join(blobs)
    header = {
        "draws": {"dtype": "U8", "shape": [len(draws)], "data_offsets": [0, len(draws)]},
        "data": {"dtype": "U8", "shape": [len(data)], "data_offsets": [len(draws), len(draws) + len(data)]},
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + draws + data)
