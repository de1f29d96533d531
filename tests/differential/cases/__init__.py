"""How cases of every op are drawn, and what PyTorch has for them."""

from cases import elementwise, reductions, layers, losses, chains, movement  # noqa: F401, isort: skip; draws are numbered in this order
