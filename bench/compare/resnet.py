"""ResNets as torchvision builds them, where it need not be installed."""

from torch import nn
from torch.nn import functional

# Blocks of each stage, and whether they are bottlenecks.
DEPTHS = {18: ((2, 2, 2, 2), False), 50: ((3, 4, 6, 3), True)}


def conv_norm(channels_in, channels, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False),
                         nn.BatchNorm2d(channels))


class Block(nn.Module):
    """relu(body(x) + shortcut(x)): two convolutions of 3x3, or a bottleneck of 1x1, 3x3 and 1x1, which strides in its 3x3."""

    def __init__(self, channels_in, channels, stride, is_bottleneck):
        super().__init__()
        out = 4 * channels if is_bottleneck else channels
        if is_bottleneck:
            parts = (conv_norm(channels_in, channels, 1), conv_norm(channels, channels, 3, stride),
                     conv_norm(channels, out, 1))
        else:
            parts = (conv_norm(channels_in, channels, 3, stride), conv_norm(channels, channels, 3))
        self.body = nn.Sequential(*[layer for part in parts for layer in (part, nn.ReLU(inplace=True))][:-1])
        self.shortcut = None if stride == 1 and channels_in == out else conv_norm(channels_in, out, 1, stride)

    def forward(self, x):
        y = self.body(x)
        return functional.relu(y + (x if self.shortcut is None else self.shortcut(x)), inplace=True)


def resnet(depth, side):
    """For images of 224x224 and 1000 classes; for 32x32 with a 3x3 stem and ten classes."""
    is_small = side == 32
    counts, is_bottleneck = DEPTHS[depth]
    layers = [conv_norm(3, 64, 3 if is_small else 7, 1 if is_small else 2), nn.ReLU(inplace=True)]
    if not is_small:
        layers.append(nn.MaxPool2d(3, 2, 1))
    channels_in = 64
    for stage, count in enumerate(counts):
        channels = 64 << stage
        for i in range(count):
            layers.append(Block(channels_in, channels, 2 if stage > 0 and i == 0 else 1, is_bottleneck))
            channels_in = 4 * channels if is_bottleneck else channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels_in, 10 if is_small else 1000))
