"""A case in alternating rounds of both sides.

Each measurement warms up for a third of its time and then runs blocks of about a millisecond, whose median counts. The
ratio is taken inside each round, so a change of the machine's speed meets both sides.
"""

import time

import torch

from compare.measure import measure
from compare.sweep.operands import DTYPES, NAMES, Case

CASE_SECONDS = 2  # after which no further round is begun


def results_of(run):
    """As brim writes them: "f32 (2, 3)"."""
    return [f"{NAMES[x.dtype]} ({', '.join(map(str, x.shape))})" for x in run.results()]


class Mismatch(Exception):
    pass


def measure_case(case, builder, server, options):
    """Rounds of one case -> {"us": .., "torch_us": .., "ratios": ..}, lists with an entry a round. Raises Mismatch if
    the results of the two sides differ in dtypes or shapes."""
    torch.set_num_threads(case["threads"])
    run = builder(Case(case["layout"], DTYPES[case["dtype"]], case["elements"]))
    request = {**case, "seconds": options.seconds}
    record = {"us": [], "cpu_us": [], "torch_us": [], "torch_cpu_us": []}

    def time_brim():
        answer = server.ask(request)
        record["us"].append(answer["us"])
        record["cpu_us"].append(answer["cpu_us"])
        if answer["results"] != results:
            raise Mismatch(f"brim's results are {answer['results']}, PyTorch's {results}")

    def time_torch():
        us, cpu = measure(run.step, options.seconds, warm_up=options.seconds / 3, warm_up_steps=1, blocks=1)
        record["torch_us"].append(us)
        record["torch_cpu_us"].append(cpu)

    with torch.set_grad_enabled(run.trains):
        begin = time.perf_counter()
        results = results_of(run)
        for turn in range(options.rounds):
            if turn > 0 and time.perf_counter() - begin > CASE_SECONDS:
                break
            for side in (time_brim, time_torch) if turn % 2 == 0 else (time_torch, time_brim):
                side()
    return record
