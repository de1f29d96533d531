"""The parts of bench/compare_torch.py; docs/BENCHMARKS.md describes what they measure."""
