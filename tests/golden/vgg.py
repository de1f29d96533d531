"""torchvision's VGGs with computed weights: logits, loss and gradient norms of evaluation, and the names of their state.

vgg.safetensors is as resnet.safetensors (resnet.py), with the same formula for weights and pictures, but for what differs
here: pictures are of 32x32, and all is in evaluation mode (`eval`, `loss`, `grad_norms`), where dropout draws nothing.
"""

import json

import torch
import torch.nn.functional as F

from goldenlib import write_safetensors
from resnet import network, norms, pictures

MODELS = ("vgg16", "vgg11_bn")


def write(folder):
    tensors, metadata = {}, {}
    for model in MODELS:
        net = network(model)
        metadata[f"state/{model}"] = json.dumps([[name, list(t.shape)] for name, t in net.state_dict().items()])
        net.double().eval()
        logits = net(pictures(32))
        loss = F.cross_entropy(logits, torch.tensor([3, 7]))
        loss.backward()
        tensors[f"{model}/eval"] = logits.detach().numpy()
        tensors[f"{model}/loss"] = loss.detach().numpy()
        tensors[f"{model}/grad_norms"] = norms(p.grad for p in net.parameters())
    path = folder / "vgg.safetensors"
    write_safetensors(path, tensors, metadata)
    return [path]
