"""How cases of every op are drawn, and what PyTorch has for them."""

from cases import elementwise, layers, movement, reductions  # noqa: F401
