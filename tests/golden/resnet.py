"""torchvision's ResNets with computed weights: logits, gradient norms and the names of their state.

resnet.safetensors holds, for each of MODELS (on 64x64 pictures, or 32x32 where its name ends in -cifar, which stands for
a 3x3 stem), from a float64 run: `<model>/eval` and `<model>/train`, the logits in both modes; `loss` (cross-entropy in
training mode), `grad_norms` (one per parameter) and `running_norms` (one per running mean and variance, after that one
pass). The metadata entry `state/<model>` lists name and shape of every entry of the state dict.

Weights and pictures are computed, never stored. With u(t, i) = (splitmix64(t * 2^32 + i) >> 40) / 2^24, entry i of tensor
number t (in the order of the state dict; the pictures are number 1000) is in float64, then rounded to float32:
    (u - 0.5) * sqrt(24 / fan_in)    weights of convolutions and linear layers
    u + 0.5                          bn weights and running variances
    (u - 0.5) * 0.2                  biases and running means
    (u - 0.5) * 4                    pictures; the labels are 3 and 7
"""

import json

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from goldenlib import write_safetensors
from training import splitmix64

CLASSES = 10
PICTURES = 1000
MODELS = ("resnet18", "resnet18-cifar", "resnet50")


def uniform(number, shape):
    bits = splitmix64((np.uint64(number) << np.uint64(32)) + np.arange(np.prod(shape, dtype=np.int64), dtype=np.uint64))
    return (bits >> np.uint64(40)).astype(np.float64).reshape(shape) / 2**24


def value(number, name, shape):
    u = uniform(number, shape)
    if len(shape) > 1:
        return (u - 0.5) * np.sqrt(24 / np.prod(shape[1:]))
    if name.endswith(("running_var", "weight")):  # of batch norm
        return u + 0.5
    return (u - 0.5) * 0.2


def network(model):
    net = getattr(torchvision.models, model.removesuffix("-cifar"))(num_classes=CLASSES)
    if model.endswith("-cifar"):
        net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        net.maxpool = nn.Identity()
    state = net.state_dict()
    for number, (name, tensor) in enumerate(state.items()):
        if tensor.dtype.is_floating_point:
            tensor.copy_(torch.from_numpy(value(number, name, tuple(tensor.shape)).astype(np.float32)))
    net.load_state_dict(state)
    return net


def pictures(size):
    return torch.from_numpy(((uniform(PICTURES, (2, 3, size, size)) - 0.5) * 4).astype(np.float32)).double()


def norms(tensors):
    return np.array([t.norm().item() for t in tensors])


def write(folder):
    tensors, metadata = {}, {}
    for model in MODELS:
        size = 32 if model.endswith("-cifar") else 64
        net = network(model)
        metadata[f"state/{model}"] = json.dumps([[name, list(t.shape)] for name, t in net.state_dict().items()])
        net.double()
        x = pictures(size)
        net.eval()
        tensors[f"{model}/eval"] = net(x).detach().numpy()
        net.train()
        logits = net(x)
        loss = F.cross_entropy(logits, torch.tensor([3, 7]))
        loss.backward()
        tensors[f"{model}/train"] = logits.detach().numpy()
        tensors[f"{model}/loss"] = loss.detach().numpy()
        tensors[f"{model}/grad_norms"] = norms(p.grad for p in net.parameters())
        tensors[f"{model}/running_norms"] = norms(b for name, b in net.named_buffers() if "running" in name)
    path = folder / "resnet.safetensors"
    write_safetensors(path, tensors, metadata)
    return [path]
