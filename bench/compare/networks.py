"""The networks that both sides train, in PyTorch, and their data. src/cli/bench/training_cases.cpp is brim's side."""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

LEARNING_RATE, MOMENTUM = 0.001, 0.9


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
        y = torch.randint(0, self.classes, (self.batches, self.batch), generator=generator)
        return x, y


def training_cases():
    cases = [TrainingCase(f"tutorial-b{batch}", TutorialNet, (3, 32, 32), batch) for batch in (4, 32, 128)]
    for widths, batch in (((784, 128, 10), 8), ((784, 512, 512, 10), 32), ((784, 512, 512, 10), 256)):
        name = f"mlp-{'-'.join(map(str, widths))}-b{batch}"
        cases.append(TrainingCase(name, lambda widths=widths: mlp(widths), (784,), batch))
    for side, batch, classes in ((32, 64, 10), (224, 16, 1000)):
        name = f"resnet18-{side}-b{batch}"
        cases.append(TrainingCase(name, lambda side=side: resnet18(side), (3, side, side), batch, classes, 4))
    return {case.name: case for case in cases}
