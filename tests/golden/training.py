"""The tutorial network's training from given weights on computed batches: 200 steps of 4 and 20 of 128.

train.safetensors holds the initial weights `start/<name>`; train_b4 and train_b128 hold the weight changes
`change/<name>` of PyTorch's float32 run, `batches` (the number of each step's batch), and from a float64 run `losses64`
(every step's) and `summary64/<name>`: the change's norm and its dot product with signs taken from splitmix64(i).
The metadata say how far float32 runs lie apart by themselves: `spread` for two ways of computing in PyTorch (with and
without oneDNN), `float64_distance` for float32 against float64.

The batches are computed, never stored. Sample s of a run (s = batch number * batch size + position) has
    label    = splitmix64(seed + s) >> 32, modulo 10
    pixel i  = (top byte of splitmix64(seed * 2^32 + s * 3072 + i) + top byte of splitmix64(label * 192 + block)) / 2
    block    = channel * 64 + (row / 4) * 8 + column / 4
with integer arithmetic modulo 2^64, and the network sees (pixel / 255 - 0.5) / 0.5 in float32, one operation a time.

ReLU and max pooling jump where a value is zero or two are equal. Such a place met by chance within float32 rounding
sends one gradient elsewhere (a distance of 1e-3), so batches that come nearer than `margin` are passed over.
"""

import json

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

from goldenlib import write_safetensors

SEED = 2024
LEARNING_RATE = 0.001
MOMENTUM = 0.9
RUNS = {"b4": (200, 4, 3e-6), "b128": (20, 128, 1e-6)}  # steps, batch size, margin


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(F.relu(self.fc2(x)))


def splitmix64(x):
    with np.errstate(over="ignore"):
        x = np.asarray(x, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def batch(number, size):
    """Images (size, 3, 32, 32) float32 and labels (size,) int64."""
    samples = np.arange(number * size, (number + 1) * size, dtype=np.uint64)
    labels = (splitmix64(np.uint64(SEED) + samples) >> np.uint64(32)) % np.uint64(10)
    pixel = np.arange(3072, dtype=np.uint64)
    counter = (np.uint64(SEED) << np.uint64(32)) + samples[:, None] * np.uint64(3072) + pixel[None, :]
    noise = splitmix64(counter) >> np.uint64(56)
    channel, row, column = pixel // np.uint64(1024), pixel // np.uint64(32) % np.uint64(32), pixel % np.uint64(32)
    block = channel * np.uint64(64) + row // np.uint64(4) * np.uint64(8) + column // np.uint64(4)
    pattern = splitmix64(labels[:, None] * np.uint64(192) + block[None, :]) >> np.uint64(56)
    value = ((noise + pattern) // np.uint64(2)).astype(np.float32)
    images = (value / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    return torch.from_numpy(images.reshape(size, 3, 32, 32)), torch.from_numpy(labels.astype(np.int64))


def clear_of_kinks(net, images, margin):
    """Whether no ReLU or pooling decision of the batch hangs on less than the margin."""

    def pooled(x):
        top = F.unfold(x.flatten(0, 1).unsqueeze(1), 2, stride=2).topk(2, dim=1).values
        first, second = top[:, 0], top[:, 1]
        close = (first.abs() < margin) | ((first > 0) & (first - second < margin))
        return not close.any()

    with torch.no_grad():
        x = net.conv1(images)
        clear = pooled(x)
        x = net.conv2(F.max_pool2d(F.relu(x), 2))
        clear = clear and pooled(x)
        x = net.fc1(torch.flatten(F.max_pool2d(F.relu(x), 2), 1))
        clear = clear and x.abs().min().item() > margin
        return clear and net.fc2(F.relu(x)).abs().min().item() > margin


def train(start, steps, size, dtype, batches=None, margin=0.0):
    """Weight changes, losses and batch numbers; without `batches` they are chosen by the margin."""
    net = Net().to(dtype)
    net.load_state_dict({name: value.to(dtype) for name, value in start.items()})
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    losses, taken, candidate = [], [], 0
    for step in range(steps):
        if batches is not None:
            candidate = batches[step]
        images, labels = batch(candidate, size)
        while batches is None and not clear_of_kinks(net, images.to(dtype), margin):
            candidate += 1
            images, labels = batch(candidate, size)
        taken.append(candidate)
        candidate += 1
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images.to(dtype)), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {name: value.double() - start[name].double() for name, value in net.state_dict().items()}, losses, taken


def distances(change, other):
    return {name: ((other[name] - c).norm() / c.norm()).item() for name, c in change.items()}


def summary(change):
    flat = change.numpy().ravel()
    signs = 1.0 - 2.0 * (splitmix64(np.arange(flat.size)) >> np.uint64(63)).astype(np.float64)
    return np.array([np.sqrt((flat * flat).sum()), (flat * signs).sum()])


def write(folder):
    torch.manual_seed(SEED)
    start = {name: value.clone() for name, value in Net().state_dict().items()}
    paths = [folder / "train.safetensors"]
    write_safetensors(paths[0], {f"start/{name}": value.numpy() for name, value in start.items()}, {})
    for run, (steps, size, margin) in RUNS.items():
        exact, losses, batches = train(start, steps, size, torch.float64, margin=margin)
        change, _, _ = train(start, steps, size, torch.float32, batches)
        with torch.backends.mkldnn.flags(enabled=False):
            native, _, _ = train(start, steps, size, torch.float32, batches)
        tensors = {f"change/{name}": c.float().numpy() for name, c in change.items()}
        tensors |= {f"summary64/{name}": summary(c) for name, c in exact.items()}
        tensors |= {"losses64": np.array(losses), "batches": np.array(batches, np.int64)}
        record = {
            "steps": steps,
            "batch": size,
            "seed": SEED,
            "lr": LEARNING_RATE,
            "momentum": MOMENTUM,
            "margin": margin,
        }
        record |= {"spread": distances(change, native), "float64_distance": distances(exact, change)}
        paths.append(folder / f"train_{run}.safetensors")
        write_safetensors(paths[-1], tensors, {"run": json.dumps(record, sort_keys=True)})
    return paths
