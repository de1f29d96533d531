"""Whether both sides compute the same: after some steps from the same weights on the same batches, for each tensor of
the network, norm(brim's change - PyTorch's change) / norm(PyTorch's change)."""

import os
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


def compare_weights(case, brim, steps):
    """Trains on both sides. -> the worst tensor and its distance, for brim eager and compiled."""
    from safetensors.torch import load_file, save_file

    first = case.first_state()
    step, network = training_step(case, EAGER)
    for _ in range(steps):
        step()
    expected = {name: value.detach().clone() for name, value in network.state_dict().items()}
    x, y = case.data()
    result = {"case": case.name, "steps": steps}
    with tempfile.TemporaryDirectory() as folder:
        weights, batches, saved = (os.path.join(folder, f"{n}.safetensors") for n in ("weights", "batches", "saved"))
        save_file(first, weights)
        save_file({"x": x, "y": y}, batches)
        for mode in BRIM_MODES:
            files = ["--weights", weights, "--batches", batches, "--save", saved]
            brim.record(case.name, "--mode", mode, "--steps", str(steps), *files)
            found = distances(first, expected, load_file(saved))
            worst = max(found, key=found.get)
            result[mode] = {"distance": found[worst], "tensor": worst, "all": found}
    return result
