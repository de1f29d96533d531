"""Times a step the way bench/command/measure.h does: the median over blocks of at least a millisecond."""

import statistics
import time

BLOCK_SECONDS = 1e-3


def measure(step, seconds, warm_up=0.3, warm_up_steps=3, blocks=5):
    """-> microseconds per step: the median over blocks, at least so many, and the mean CPU time"""
    begin = time.perf_counter()
    steps = 0
    while time.perf_counter() - begin < warm_up or steps < warm_up_steps:
        step()
        steps += 1
    block = max(1, round(BLOCK_SECONDS * steps / (time.perf_counter() - begin)))
    samples = []
    cpu = time.process_time()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples) < blocks:
        start = time.perf_counter()
        for _ in range(block):
            step()
        samples.append((time.perf_counter() - start) / block * 1e6)
    cpu = (time.process_time() - cpu) / (len(samples) * block) * 1e6
    return statistics.median(samples), cpu
