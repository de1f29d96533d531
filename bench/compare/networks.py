"""The networks that both sides train, in PyTorch, and their data. bench/command/training_cases.cpp is brim's side."""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn, optim

from compare import blocks

LEARNING_RATE, MOMENTUM = 0.001, 0.9
ADAMW_EPS = 1e-6


class TutorialNet(nn.Module):
    """The network of PyTorch's CIFAR-10 tutorial."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def mlp(widths):
    """Linear layers with ReLU between them."""
    layers = []
    for features_in, features_out in zip(widths, widths[1:]):
        layers += [nn.Linear(features_in, features_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def resnet18(side):
    """torchvision's network; for 32x32 pictures with a 3x3 stem and ten classes."""
    from torchvision.models import resnet18 as torchvision_resnet18

    if side != 32:
        return torchvision_resnet18()
    network = torchvision_resnet18(num_classes=10)
    network.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return network


@dataclasses.dataclass(frozen=True)
class TrainingCase:
    """What is trained on what."""

    name: str
    network: Callable[[], nn.Module]
    sample: tuple  # shape of one picture or vector
    batch: int
    classes: int = 10
    batches: int = 16
    labels: tuple = ()  # shape of one sample's labels; those of a text have one for each token
    adamw: bool = False  # how blocks are trained, instead of SGD
    draws_dropout: bool = False  # both sides draw their own: results differ

    def is_cnn(self):
        return len(self.sample) == 3

    def first_state(self, draw=0):
        """A new network's state; the same at each call with the same `draw`."""
        torch.manual_seed(2 * draw)
        return {name: value.clone() for name, value in self.network().state_dict().items()}

    def data(self, draw=0):
        """Random batches (x, y); the same at each call with the same `draw`."""
        generator = torch.Generator().manual_seed(2 * draw + 1)
        x = torch.rand(self.batches, self.batch, *self.sample, generator=generator) * 2 - 1
        y = torch.randint(0, self.classes, (self.batches, self.batch, *self.labels), generator=generator)
        return x, y

    def optimizer(self, parameters, fused):
        """`fused`: by one kernel; else as its users write it."""
        options = {"fused": True} if fused else {}
        if self.adamw:
            return optim.AdamW(parameters, lr=LEARNING_RATE, eps=ADAMW_EPS, **options)
        return optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM, **options)


def training_cases():
    cases = [TrainingCase(f"tutorial-b{batch}", TutorialNet, (3, 32, 32), batch) for batch in (4, 32, 128)]
    for widths, batch in (((784, 128, 10), 8), ((784, 512, 512, 10), 32), ((784, 512, 512, 10), 256)):
        name = f"mlp-{'-'.join(map(str, widths))}-b{batch}"
        cases.append(TrainingCase(name, lambda widths=widths: mlp(widths), (784,), batch))
    for side, batch, classes in ((32, 64, 10), (224, 16, 1000)):
        name = f"resnet18-{side}-b{batch}"
        cases.append(TrainingCase(name, lambda side=side: resnet18(side), (3, side, side), batch, classes, 4))
    tokens = {"sample": (blocks.TOKENS, blocks.WIDTH), "labels": (blocks.TOKENS,)}
    pictures = {"sample": (blocks.WIDTH, blocks.SIDE, blocks.SIDE)}
    for name, network, options in (
        ("transformer-block", lambda: blocks.TransformerBlock(0), tokens),
        ("transformer-block-dropout", lambda: blocks.TransformerBlock(0.1), {**tokens, "draws_dropout": True}),
        ("convnext-block", blocks.ConvNextBlock, pictures),
        ("mlp-block", blocks.mlp_block, tokens),
    ):
        cases.append(TrainingCase(name, network, batch=8, classes=blocks.WIDTH, adamw=True, **options))
    return {case.name: case for case in cases}
