"""Time per inference, all sides in one process in alternating rounds.

Each call is timed by itself. A round's figure is the median call; ratios are taken inside of each round, against the
fastest of the others, so that a change of the machine's speed meets all of them. p50 and p99 are of all rounds' calls. The
ratios of the fastest calls of all and of CPU time, which other work on the machine disturbs least, stand beside them.
"""

import statistics
import time

import numpy

from compare.busy import Watch
from compare.deploy import energy, models, sides, targets
from compare.deploy.samples import difference
from compare.rounds import alternate, ratios

WARM_UP = 0.1  # seconds, and at least so many calls:
WARM_UP_CALLS = 3
FEWEST_CALLS = 5


def time_calls(call, seconds):
    """-> {"us": of each call, "cpu_us": of all threads, the mean of the calls, "joules": of all, or None}"""
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < WARM_UP or calls < WARM_UP_CALLS:
        call()
        calls += 1
    clock, samples = time.perf_counter_ns, []
    joules, cpu = energy.read(), time.process_time()
    end = clock() + int(seconds * 1e9)
    before = clock()
    while before < end or len(samples) < FEWEST_CALLS:
        call()
        after = clock()
        samples.append(after - before)
        before = after
    cpu, used = time.process_time() - cpu, energy.since(joules)
    return {"us": numpy.array(samples) / 1e3, "cpu_us": cpu / len(samples) * 1e6, "joules": used}


def summary(rounds, side, batch):
    """Of all rounds' calls."""
    us = numpy.concatenate([r[side]["us"] for r in rounds])
    joules = [r[side]["joules"] for r in rounds]
    return {
        "min_us": float(us.min()),
        "p50_us": float(numpy.percentile(us, 50)),
        "p99_us": float(numpy.percentile(us, 99)),
        "cpu_us": statistics.median(r[side]["cpu_us"] for r in rounds),
        "samples_per_s": batch * len(us) / (us.sum() / 1e6),
        "joules_per_sample": None if None in joules else sum(joules) / (len(us) * batch),
        "calls": len(us),
        "round_medians_us": [float(numpy.median(r[side]["us"])) for r in rounds],
    }


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def compare(about, batch, options, there):
    """-> the record of one model with one size of batch; `there`: the sides that are installed."""
    x, y = models.load_samples(about, batch)
    runners, absent, differences = {}, {}, {}
    for side in there:
        try:
            runner = sides.open_side(side, about, x, y, options.threads, options.isa)
            runner.call()
            differences[side] = difference(runner.output(), y)
            runners[side] = runner
        except sides.Absent as error:
            absent[side] = str(error)
        except Exception as error:  # pylint: disable=broad-except
            absent[side] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    watch = Watch()
    measured = {side: lambda r=r: time_calls(r.call, options.seconds) for side, r in runners.items()}
    rounds = alternate(measured, options.rounds)
    record = {
        "model": about["model"],
        "precision": about["precision"],
        "batch": batch,
        "flops_per_sample": about["flops"],
        "sides": {side: summary(rounds, side, batch) | {"difference": differences[side]} for side in runners},
        "absent": absent,
        "others_share_of_cpus": watch.share_of_others(),
    }
    record |= speedups(record["sides"])
    return record


def speedups(measured):
    """brim against the fastest of those that the targets are about, and against PyTorch."""
    if "brim" not in measured:
        return {}
    found = {}
    medians = {side: m["round_medians_us"] for side, m in measured.items()}
    per_round = [dict(zip(medians, figures)) for figures in zip(*medians.values())]
    peers = [side for side in targets.PEERS if side in measured]
    if peers:
        best = min(peers, key=lambda side: measured[side]["p50_us"])
        found |= {"best_peer": best, "speedup": spread(ratios(per_round, best, "brim"))}
        for key, of in (("speedup_of_fastest_calls", "min_us"), ("speedup_of_cpu_time", "cpu_us")):
            found[key] = min(measured[side][of] for side in peers) / measured["brim"][of]
    if "torch" in measured:
        found["speedup_over_torch"] = spread(ratios(per_round, "torch", "brim"))
    return found

