"""Optimizer trajectories, learning-rate schedules, gradient clipping, default initialisation."""

import json

import numpy as np
import torch
from torch import nn, optim as torch_optim
from torch.optim import lr_scheduler

STEPS = 20

OPTIMIZERS = [
    ("sgd", "plain", {"lr": 0.1}),
    ("sgd", "momentum", {"lr": 0.05, "momentum": 0.9}),
    ("sgd", "nesterov", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ("sgd", "weight_decay", {"lr": 0.1, "weight_decay": 0.01}),
    ("sgd", "dampening", {"lr": 0.05, "momentum": 0.8, "dampening": 0.3}),
    ("sgd", "everything", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.02, "nesterov": True}),
    ("adam", "plain", {"lr": 0.01}),
    ("adam", "betas", {"lr": 0.02, "betas": [0.8, 0.95], "eps": 1e-3}),
    ("adam", "weight_decay", {"lr": 0.01, "weight_decay": 0.1}),
    ("adam", "amsgrad", {"lr": 0.01, "amsgrad": True}),
    ("adamw", "plain", {"lr": 0.01}),
    ("adamw", "weight_decay", {"lr": 0.01, "weight_decay": 0.2, "betas": [0.8, 0.99]}),
    ("rmsprop", "plain", {"lr": 0.01}),
    ("rmsprop", "momentum", {"lr": 0.01, "momentum": 0.9, "alpha": 0.9}),
    ("rmsprop", "centered", {"lr": 0.01, "centered": True, "alpha": 0.95, "eps": 1e-4}),
    ("rmsprop", "everything", {"lr": 0.01, "momentum": 0.5, "centered": True, "weight_decay": 0.05}),
]
CLASSES = {"sgd": torch_optim.SGD, "adam": torch_optim.Adam, "adamw": torch_optim.AdamW, "rmsprop": torch_optim.RMSprop}


def optim(family):
    """Keys `start/<p>`, `gradient/<p>` (STEPS, ...) and `<optimizer>/<case>/after<step>/<p>` for two parameters."""
    starts = [family.data(f"start/{i}", shape) for i, shape in enumerate(((3, 2), (5,)))]
    gradients = [family.data(f"gradient/{i}", (STEPS, *start.shape)) for i, start in enumerate(starts)]
    for i in range(2):
        family.put(f"start/{i}", starts[i])
        family.put(f"gradient/{i}", gradients[i])
    for kind, name, options in OPTIMIZERS:
        parameters = [torch.from_numpy(s.copy()).double().requires_grad_() for s in starts]
        optimizer = CLASSES[kind](parameters, **options, foreach=False)
        for step in range(1, STEPS + 1):
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = torch.from_numpy(gradient[step - 1]).double()
            optimizer.step()
            if step % 5 == 0:
                for i, parameter in enumerate(parameters):
                    family.put(f"{kind}/{name}/after{step}/{i}", parameter.detach().numpy().copy())
        family.metadata[f"{kind}/{name}"] = json.dumps(options, sort_keys=True)


SCHEDULES = [
    ("step", "plain", "StepLR", {"step_size": 4, "gamma": 0.3}, 15),
    ("cosine", "plain", "CosineAnnealingLR", {"T_max": 12}, 13),
    ("cosine", "floor", "CosineAnnealingLR", {"T_max": 10, "eta_min": 0.01}, 11),
    ("linear", "warm_up", "LinearLR", {"start_factor": 0.1, "end_factor": 1.0, "total_iters": 5}, 9),
    ("linear", "default", "LinearLR", {}, 9),
    ("linear", "down", "LinearLR", {"start_factor": 1.0, "end_factor": 0.2, "total_iters": 8}, 12),
    ("one_cycle", "plain", "OneCycleLR", {"max_lr": 0.5, "total_steps": 20}, 20),
    ("one_cycle", "linear", "OneCycleLR", {"max_lr": 0.5, "total_steps": 17, "anneal_strategy": "linear"}, 17),
    (
        "one_cycle",
        "options",
        "OneCycleLR",
        {"max_lr": 0.5, "total_steps": 30, "pct_start": 0.2, "div_factor": 10.0, "final_div_factor": 100.0},
        30,
    ),
]


def schedule(family):
    """`<schedule>/<case>/lr`: the rate of the steps 0, 1, 2, ... from a base rate of 0.1 (momentum is left alone)."""
    for kind, name, factory, options, count in SCHEDULES:
        optimizer = torch_optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
        extra = {"cycle_momentum": False} if kind == "one_cycle" else {}
        scheduler = getattr(lr_scheduler, factory)(optimizer, **options, **extra)
        rates = []
        for _ in range(count):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if len(rates) < count:
                scheduler.step()
        family.put(f"{kind}/{name}/lr", np.array(rates, np.float64))
        family.metadata[f"{kind}/{name}"] = json.dumps({"lr": 0.1, **options}, sort_keys=True)


def clip(family):
    """Inputs are two gradients; outputs are the clipped ones, and for clip_grad_norm_ the norm before."""
    gradients = [family.data("gradient/0", (3, 4)), family.data("gradient/1", (5,))]

    def clipped(function):
        def run(*tensors):
            parameters = [torch.zeros_like(t).requires_grad_() for t in tensors]
            for parameter, tensor in zip(parameters, tensors):
                parameter.grad = tensor.clone()
            result = function(parameters)
            return [p.grad for p in parameters] + ([result] if result is not None else [])

        return run

    for name, max_norm in (("shrinks", 1.0), ("leaves", 100.0)):
        function = clipped(lambda p, m=max_norm: nn.utils.clip_grad_norm_(p, m))
        family.case("clip_grad_norm", name, function, gradients, {"max_norm": max_norm}, grad=False)
    function = clipped(lambda p: nn.utils.clip_grad_value_(p, 0.5))
    family.case("clip_grad_value", "half", function, gradients, {"clip_value": 0.5}, grad=False)


MODULES = [
    ("linear", lambda: nn.Linear(300, 200), {"in": 300, "out": 200}),
    ("conv2d", lambda: nn.Conv2d(16, 40, 5), {"in": 16, "out": 40, "kernel": 5, "groups": 1}),
    ("conv2d_groups", lambda: nn.Conv2d(16, 64, 3, groups=4), {"in": 16, "out": 64, "kernel": 3, "groups": 4}),
    ("batch_norm2d", lambda: nn.BatchNorm2d(64), {"features": 64}),
    ("layer_norm", lambda: nn.LayerNorm(64), {"features": 64}),
    ("embedding", lambda: nn.Embedding(300, 64), {"num": 300, "dim": 64}),
    ("embedding_padding", lambda: nn.Embedding(300, 64, padding_idx=7), {"num": 300, "dim": 64, "padding_idx": 7}),
]


def initial(family):
    """`<module>/<parameter>`: [least, largest, mean, standard deviation] of PyTorch's default initialisation.

    Generators differ, so moments are compared: those of many modules, kept beside the kind of distribution and its
    exact bound where it is uniform.
    """
    for name, factory, options in MODULES:
        torch.manual_seed(1)
        modules = [factory() for _ in range(20)]
        kinds = {}
        for key, first in modules[0].state_dict().items():
            if not first.is_floating_point():
                continue
            sample = torch.cat([m.state_dict()[key].flatten() for m in modules]).double()
            least, largest = sample.min().item(), sample.max().item()
            family.put(
                f"{name}/{key}", np.array([least, largest, sample.mean().item(), sample.std(correction=0).item()])
            )
            kinds[key] = {"shape": list(first.shape), **_kind(name, key, modules[0], least, largest)}
        family.metadata[name] = json.dumps({"options": options, "parameters": kinds}, sort_keys=True)


def _kind(name, key, module, least, largest):
    if least == largest:
        return {"kind": "constant", "value": least}
    if name.startswith("embedding"):
        return {"kind": "normal", "mean": 0.0, "std": 1.0}
    # kaiming_uniform with a = sqrt(5) has this bound for the weight; the bias takes it from the same fan-in.
    bound = module.weight[0].numel() ** -0.5
    if not (0.99 * bound < largest <= bound and -bound <= least < -0.99 * bound):
        raise ValueError(f"{name}/{key}: [{least}, {largest}] does not fill the bound {bound}")
    return {"kind": "uniform", "bound": bound}
