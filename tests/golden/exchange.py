#!/usr/bin/env python3
"""Trains in PyTorch, evaluates in brim, and back: `exchange.py BRIM [--model MODEL] [--epochs N]`, with PyTorch and torchvision.

Both directions go through a .pth file on the same test pictures. The number of correct predictions must be the same.
Pictures are the drawn set shapes10, or a CIFAR-10 binary folder (--data).
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import resnet
import training

RECIPE_INPUT = {"tutorial-cnn": ([0.5] * 3, [0.5] * 3), "resnet18-cifar": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616])}


def make_network(model):
    if model == "tutorial-cnn":
        return training.Net()
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    net.maxpool = nn.Identity()
    return net


def read_cifar(folder, pattern, model):
    records = np.concatenate([np.fromfile(p, np.uint8).reshape(-1, 3073) for p in sorted(folder.glob(pattern))])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in RECIPE_INPUT[model])
    x = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()).float() / 255
    return (x - mean) / std, torch.from_numpy(records[:, 0].astype(np.int64))


def correct(net, x, y):
    net.eval()
    with torch.no_grad():
        return sum(int((net(a).argmax(1) == b).sum()) for a, b in zip(x.split(100), y.split(100)))


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"exchange: {' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def brim_accuracy(brim, model, weights, data):
    result = run(brim, "eval", model, "--weights", weights, "--data", data, "--device", "cpu", "--json", "-")
    return json.loads(result)["accuracy"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("brim")
    parser.add_argument("--model", choices=RECIPE_INPUT, default="tutorial-cnn")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=0, help="of both trainings; 0: whole epochs")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        data = options.data or scratch / "shapes10"
        if not options.data:
            run(options.brim, "data", "make", data)
        x, y = read_cifar(data, "data_batch_*.bin", options.model)
        test = read_cifar(data, "test_batch.bin", options.model)

        net = make_network(options.model)
        batch, lr = (4, 0.001) if options.model == "tutorial-cnn" else (32, 0.02)
        optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        step = 0
        for _ in range(options.epochs):
            for indices in torch.randperm(len(y)).split(batch):
                if options.steps and step == options.steps:
                    break
                step += 1
                optimizer.zero_grad()
                F.cross_entropy(net(x[indices]), y[indices]).backward()
                optimizer.step()
        torch.save(net.state_dict(), scratch / "torch.pth")
        there = correct(net, *test), round(brim_accuracy(options.brim, options.model, scratch / "torch.pth", data) * len(test[1]))

        steps = ["--steps", options.steps] if options.steps else []
        run(options.brim, "train", options.model, "--data", data, "--epochs", options.epochs, "--batch", batch, "--lr", lr,
            "--device", "cpu", "--out", scratch / "run", *steps)  # fmt: skip
        run(options.brim, "convert", scratch / "run/model.safetensors", scratch / "brim.pth")
        back = make_network(options.model)
        back.load_state_dict(torch.load(scratch / "brim.pth", weights_only=True))
        weights = scratch / "run/model.safetensors"
        back = correct(back, *test), round(brim_accuracy(options.brim, options.model, weights, data) * len(test[1]))
    print(f"{options.model}, {len(test[1])} test pictures, correct in PyTorch and in brim")
    print(f"  trained in PyTorch: {there[0]} and {there[1]}")
    print(f"  trained in brim:    {back[0]} and {back[1]}")
    sys.exit(0 if there[0] == there[1] and back[0] == back[1] else "exchange: they differ")


if __name__ == "__main__":
    main()
