"""All ops of the sweep in PyTorch."""

from compare.sweep.elementwise import elementwise_ops
from compare.sweep.moves import move_ops
from compare.sweep.products import product_ops
from compare.sweep.rows import row_ops
from compare.sweep.training import training_ops


def sweep_ops():
    """name -> builder: Case -> Run"""
    return {**elementwise_ops(), **row_ops(), **product_ops(), **move_ops(), **training_ops()}
