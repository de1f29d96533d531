"""Blocks of today's networks in PyTorch. bench/command/blocks.cpp is brim's side."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, TOKENS, SIDE = 256, 128, 14
HIDDEN, HEADS, LAYERS = 4 * WIDTH, 4, 4


class TransformerBlock(nn.Module):
    """A pre-norm block of a transformer. x: (N, T, C) -> (N, T, C)."""

    def __init__(self, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, WIDTH)
        self.dropout = dropout

    def forward(self, x):
        x = x + self.dropped(self.proj(self.attention(self.norm1(x))))
        return x + self.dropped(self.fc2(F.gelu(self.fc1(self.norm2(x)))))

    def dropped(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def attention(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind()
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        return y.transpose(1, 2).reshape(batch, tokens, WIDTH)


class ConvNextBlock(nn.Module):
    """A block of ConvNeXt. x: (N, C, H, W) -> the mean over the pixels, (N, C)."""

    def __init__(self):
        super().__init__()
        self.dwconv = nn.Conv2d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.pwconv1 = nn.Linear(WIDTH, HIDDEN)
        self.pwconv2 = nn.Linear(HIDDEN, WIDTH)
        self.gamma = nn.Parameter(torch.full((WIDTH,), 1e-6))

    def forward(self, x):
        rows = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(rows)))
        return (x + y.permute(0, 3, 1, 2)).mean((2, 3))


class MlpLayer(nn.Module):
    """Layer norm, two linear layers with GELU between them, a residual."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


def mlp_block():
    return nn.Sequential(*(MlpLayer() for _ in range(LAYERS)))
