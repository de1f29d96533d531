"""PyTorch's times (median, us) for the cases of elementwise_bench.cpp: elementwise_torch.py [threads...]"""

import sys
import time

import torch
import torch.nn.functional as F

LARGE = 1 << 20
NHWC = torch.randn(64, 16, 32, 32).to(memory_format=torch.channels_last)
CASES = {
    "relu_1m": (torch.relu, torch.randn(LARGE)),
    "exp_1m": (torch.exp, torch.randn(LARGE)),
    "tanh_1m": (torch.tanh, torch.randn(LARGE)),
    "gelu_1m": (F.gelu, torch.randn(LARGE)),
    "gelu_tanh_1m": (lambda x: F.gelu(x, approximate="tanh"), torch.randn(LARGE)),
    "sigmoid_1m": (torch.sigmoid, torch.randn(LARGE)),
    "sin_1m": (torch.sin, torch.randn(LARGE)),
    "log1p_1m": (torch.log1p, torch.randn(LARGE)),
    "add_1m": (lambda x: x + x, torch.randn(LARGE)),
    "where_1m": (lambda x: torch.where(x > 0, x, x), torch.randn(LARGE)),
    "add_row_10": (lambda x, b=torch.randn(10): x + b, torch.randn(100000, 10)),
    "add_row_1000": (lambda x, b=torch.randn(1000): x + b, torch.randn(1000, 1000)),
    "add_column_10": (lambda x, b=torch.randn(100000, 1): x + b, torch.randn(100000, 10)),
    "add_channel_nchw": (lambda x, b=torch.randn(16, 1, 1): x + b, torch.randn(64, 16, 32, 32)),
    "add_channel_nhwc": (lambda x, b=torch.randn(16, 1, 1): x + b, NHWC),
    "add_transposed": (lambda x, b=torch.randn(1024, 1024): x + b, torch.randn(1024, 1024).t()),
}


def median_us(function, x, seconds=0.3):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e6


def main():
    for threads in [int(a) for a in sys.argv[1:]] or [1, 2]:
        torch.set_num_threads(threads)
        for name, (function, x) in CASES.items():
            print(f"{name:20} threads:{threads} {median_us(function, x):9.1f} us")


if __name__ == "__main__":
    with torch.no_grad():
        main()
