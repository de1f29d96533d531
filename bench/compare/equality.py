"""Whether both sides compute the same: after some steps from the same weights on the same batches, for each tensor of
the network, norm(brim's change - PyTorch's change) / norm(PyTorch's change).

Sums in another order round differently, and where that moves a value across the corner of a ReLU or another element of
a window becomes the largest, training goes another way from there: the distance jumps from 1e-6 to 1e-3. So several
draws of weights and batches are compared, and the median of their distances is the result. PyTorch is also compared
with itself on another number of threads: how far it is from itself says what equality a case allows.
"""

import os
import statistics
import tempfile

import torch

from compare.variants import EAGER, training_step

BRIM_MODES = ("eager", "compiled")


def distances(first, expected, got):
    """{tensor's name: relative distance}. Counters must be equal: they are at distance 0 or infinity."""
    result = {}
    for name, before in first.items():
        if not before.is_floating_point():
            result[name] = 0.0 if torch.equal(expected[name], got[name]) else float("inf")
            continue
        before = before.double()
        change = expected[name].double() - before
        error = torch.linalg.vector_norm(got[name].double() - before - change).item()
        norm = torch.linalg.vector_norm(change).item()
        result[name] = error / norm if norm > 0 else (0.0 if error == 0 else float("inf"))
    return result


def train(case, steps, draw):
    """PyTorch's weights after some steps."""
    step, network = training_step(case, EAGER, draw)
    for _ in range(steps):
        step()
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def train_with_other_threads(case, steps, draw):
    """The same on one thread, or on two where it was one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2 if threads == 1 else 1)
    try:
        return train(case, steps, draw)
    finally:
        torch.set_num_threads(threads)


def train_brim(case, brim, steps, draw):
    """{mode: brim's weights after some steps}"""
    from safetensors.torch import load_file, save_file

    result = {}
    x, y = case.data(draw)
    with tempfile.TemporaryDirectory() as folder:
        weights, batches, saved = (os.path.join(folder, f"{n}.safetensors") for n in ("weights", "batches", "saved"))
        save_file(case.first_state(draw), weights)
        save_file({"x": x, "y": y}, batches)
        for mode in BRIM_MODES:
            files = ["--weights", weights, "--batches", batches, "--save", saved]
            brim.record(case.name, "--mode", mode, "--steps", str(steps), *files)
            result[mode] = {name: value.clone() for name, value in load_file(saved).items()}
    return result


def compare_weights(case, brim, steps, draws):
    """Trains on both sides. -> for brim eager, brim compiled and PyTorch itself, the distance of the worst tensor, the
    median over the draws; and all distances, draw by draw."""
    found = {way: [] for way in (*BRIM_MODES, "torch_itself")}
    for draw in range(draws):
        first, expected = case.first_state(draw), train(case, steps, draw)
        got = train_brim(case, brim, steps, draw)
        got["torch_itself"] = train_with_other_threads(case, steps, draw)
        for way, weights in got.items():
            found[way].append(distances(first, expected, weights))
    result = {"case": case.name, "steps": steps, "draws": draws}
    for way, by_draw in found.items():
        worst = [max(tensors.values()) for tensors in by_draw]
        result[way] = {"distance": statistics.median(worst), "worst_of_draws": worst, "tensors_of_draws": by_draw}
    return result
