"""Losses, optimizers, random numbers and constants in PyTorch. bench/command/sweep/training.cpp is brim's side."""

import torch
import torch.nn.functional as F

from compare.sweep.operands import Run, forward, hashed, leaf, operand, values, with_training

PAIR_LOSSES = {
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": lambda x, y: F.huber_loss(x, y, delta=0.5),
    "bce_with_logits": F.binary_cross_entropy_with_logits,
}
# As fused as PyTorch has them; it has no fused RMSprop.
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 1e-3, fused=True),
    "sgd-momentum": lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9, fused=True),
    "adam": lambda p: torch.optim.Adam(p, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, fused=True),
    "rmsprop": torch.optim.RMSprop,
}


def pair_loss(function):
    return lambda case, run: run(
        function, leaf((case.elements,), case.dtype), torch.rand(case.elements).to(case.dtype)
    )


def labels(x):
    """Of each row, or of each pixel."""
    return hashed((x.shape[0], *x.shape[2:]), x.shape[1])


def cross_entropy(case, run):
    x = operand(case).requires_grad_()
    return run(F.cross_entropy, x, labels(x))


def nll_loss(case, run):
    x = F.log_softmax(operand(case), 1).requires_grad_()
    return run(F.nll_loss, x, labels(x))


def parameters(case):
    """Ten with gradients, case.elements together."""
    result = [leaf((max(1, case.elements // 10),), case.dtype) for _ in range(10)]
    for parameter in result:
        parameter.grad = values(parameter.shape, parameter.dtype)
    return result


def optimizer(make):
    def build(case):
        every = parameters(case)
        chosen = make(every)

        def results():
            chosen.step()
            return every

        return Run(chosen.step, results)

    return build


def with_masters(case):
    """AdamW on f32 copies of 16-bit parameters, as programs without such an optimizer write it."""
    every = parameters(case)
    masters = [p.detach().float() for p in every]
    chosen = torch.optim.AdamW(masters, fused=True)

    def step():
        for master, p in zip(masters, every):
            master.grad = p.grad.float()
        chosen.step()
        with torch.no_grad():
            torch._foreach_copy_(every, masters)

    def results():
        step()
        return every

    return Run(step, results)


def clip(case):
    every = parameters(case)
    return forward(lambda: torch.nn.utils.clip_grad_norm_(every, 1))


def creation(function):
    return lambda case: forward(lambda: function(case))


def multinomial(case):
    return forward(lambda w: torch.multinomial(w, 10, replacement=True), operand(case, "positive"))


def training_ops():
    result = {
        **with_training("cross_entropy", cross_entropy),
        **with_training("nll_loss", nll_loss),
        **{name: optimizer(make) for name, make in OPTIMIZERS.items()},
        "adamw-masters": with_masters,
        "clip_grad_norm_": clip,
        "rand": creation(lambda case: torch.rand(case.elements, dtype=case.dtype)),
        "randn": creation(lambda case: torch.randn(case.elements, dtype=case.dtype)),
        "randint": creation(lambda case: torch.randint(0, 100, (case.elements,))),
        "randperm": creation(lambda case: torch.randperm(case.elements)),
        "bernoulli": lambda case: forward(torch.bernoulli, torch.rand(case.elements)),
        "multinomial": multinomial,
        "zeros": creation(lambda case: torch.zeros(case.elements, dtype=case.dtype)),
        "full": creation(lambda case: torch.full((case.elements,), 2.5, dtype=case.dtype)),
        "arange": creation(lambda case: torch.arange(case.elements, dtype=case.dtype)),
        "linspace": creation(lambda case: torch.linspace(0, 1, case.elements)),
    }
    for name, function in PAIR_LOSSES.items():
        result.update(with_training(name, pair_loss(function)))
    return result
