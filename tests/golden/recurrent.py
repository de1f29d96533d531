"""LSTM and GRU: outputs, last states and gradients of everything, from a float64 run.

recurrent.safetensors holds for each case of CASES `<case>/in/x`, `in/h`, `in/c`, `<case>/weight/<name>`, the cotangents
`<case>/cotangent/{y,h,c}`, the results `<case>/out/{y,h,c}` and `<case>/grad/<name of a weight, or x, h, c>`. The metadata entry
`<case>` is a JSON object of the layer's options. Inputs, weights and cotangents are float32 numbers.
"""

import json

import numpy as np
import torch
from torch import nn

from goldenlib import random, write_safetensors

CASES = {
    "lstm": (nn.LSTM, {}),
    "lstm_deep": (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    "lstm_plain": (nn.LSTM, {"bias": False, "batch_first": True}),
    "gru": (nn.GRU, {}),
    "gru_deep": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    "gru_plain": (nn.GRU, {"bias": False, "batch_first": True}),
}
STEPS, BATCH, IN, HIDDEN = 5, 3, 4, 6


def write(folder):
    tensors, metadata = {}, {}
    for case, (kind, options) in CASES.items():
        metadata[case] = json.dumps(options)
        drawn = lambda key, shape: random(f"recurrent/{case}/{key}").standard_normal(tuple(shape)).astype(np.float32)
        net = kind(IN, HIDDEN, **options).double()
        leaves = {}
        for name, p in net.named_parameters():
            tensors[f"{case}/weight/{name}"] = value = drawn(name, p.shape) * np.float32(0.5)
            p.data.copy_(torch.from_numpy(value))
            leaves[name] = p
        first = options.get("batch_first", False)
        cells = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        shapes = {"x": (BATCH, STEPS, IN) if first else (STEPS, BATCH, IN), "h": (cells, BATCH, HIDDEN), "c": (cells, BATCH, HIDDEN)}
        names = "xhc" if kind is nn.LSTM else "xh"
        for name in names:
            tensors[f"{case}/in/{name}"] = value = drawn(name, shapes[name])
            leaves[name] = torch.from_numpy(value).double().requires_grad_()
        if kind is nn.LSTM:
            y, (h, c) = net(leaves["x"], (leaves["h"], leaves["c"]))
            out = {"y": y, "h": h, "c": c}
        else:
            y, h = net(leaves["x"], leaves["h"])
            out = {"y": y, "h": h}
        loss = 0
        for name, t in out.items():
            tensors[f"{case}/out/{name}"] = t.detach().numpy()
            tensors[f"{case}/cotangent/{name}"] = value = drawn(f"cotangent/{name}", t.shape)
            loss = loss + (t * torch.from_numpy(value).double()).sum()
        loss.backward()
        for name, leaf in leaves.items():
            tensors[f"{case}/grad/{name}"] = leaf.grad.numpy()
    path = folder / "recurrent.safetensors"
    write_safetensors(path, tensors, metadata)
    return [path]
