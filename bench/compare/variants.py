"""The ways in which PyTorch can run a case. `eager` is the code that its users write."""

import dataclasses

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str
    compiled: bool = False
    channels_last: bool = False
    fused: bool = False  # the optimizer's update


EAGER = Variant("eager")
COMPILE = Variant("compile", compiled=True, fused=True)


def variants_of(case):
    """Of a training case."""
    result = [EAGER, Variant("eager fused", fused=True), COMPILE]
    if case.is_cnn():
        result.append(Variant("eager channels-last", channels_last=True, fused=True))
        result.append(Variant("compile channels-last", compiled=True, channels_last=True, fused=True))
    return result


def compiled(function):
    # Without dynamic=False a second batch size would be compiled for any size.
    return torch.compile(function, dynamic=False)


def training_step(case, variant, draw=0):
    """-> (the step, which takes the next batch; the network)."""
    network = case.network()
    network.load_state_dict(case.first_state(draw))
    x, y = case.data(draw)
    batches = list(zip(x.unbind(), y.unbind()))
    if variant.channels_last:
        network = network.to(memory_format=torch.channels_last)
        batches = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in batches]
    optimizer = case.optimizer(network.parameters(), variant.fused)
    criterion = nn.CrossEntropyLoss()

    def loss_of(inputs, labels):
        return criterion(network(inputs).flatten(0, -2), labels.flatten())  # each token is a sample of its own

    if variant.compiled:
        loss_of = compiled(loss_of)
    index = 0

    def step():
        nonlocal index
        inputs, labels = batches[index]
        index = (index + 1) % len(batches)
        optimizer.zero_grad()
        loss_of(inputs, labels).backward()
        optimizer.step()

    return step, network
