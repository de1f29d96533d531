"""The parts of bench/sweep_torch.py: bench/command/sweep/ in PyTorch, file by file, and the measurement."""
