"""Layers of transformers with drawn weights: results and gradients.

transformer.safetensors holds, for each of CASES, from a float64 run in eval mode: `<case>/state/<name>`, the weights by
their names in the state dict; `<case>/in/<i>`, the sequences; `<case>/cotangent`; and what follows from these float32
numbers: `<case>/out`, `<case>/grad/in/<i>` and `<case>/grad/state/<name>`. Masks follow from the case alone
(transformer_test.cpp): `keys` hides the last key of the first sequence, `causal` all that follow a query.
"""

import torch
from torch import nn

from goldenlib import random, write_safetensors

DIM, HEADS, HIDDEN = 8, 2, 12
N, LENGTH, MEMORY = 2, 5, 7


def hidden_keys(length):
    mask = torch.zeros(N, length, dtype=torch.bool)
    mask[0, -1] = True
    return mask


def attention(**options):
    return nn.MultiheadAttention(DIM, HEADS, batch_first=True, **options)


def layer(kind, activation="relu", norm_first=False):
    return kind(DIM, HEADS, HIDDEN, activation=activation, norm_first=norm_first, batch_first=True)


CAUSAL = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)

# case -> (module, shapes of its sequences, how it is called)
CASES = {
    "attention_self": (attention, [(N, LENGTH, DIM)], lambda m, x: m(x, x, x)[0]),
    "attention_single": (attention, [(LENGTH, DIM)], lambda m, x: m(x, x, x)[0]),
    "attention_causal": (attention, [(N, LENGTH, DIM)], lambda m, x: m(x, x, x, attn_mask=CAUSAL)[0]),
    "attention_keys": (
        attention,
        [(N, LENGTH, DIM), (N, MEMORY, DIM)],
        lambda m, x, y: m(x, y, y, key_padding_mask=hidden_keys(MEMORY))[0],
    ),
    "attention_dims": (
        lambda: attention(kdim=6, vdim=3),
        [(N, LENGTH, DIM), (N, MEMORY, 6), (N, MEMORY, 3)],
        lambda m, x, k, v: m(x, k, v)[0],
    ),
    "attention_no_bias": (lambda: attention(bias=False), [(N, LENGTH, DIM)], lambda m, x: m(x, x, x)[0]),
    "encoder": (lambda: layer(nn.TransformerEncoderLayer), [(N, LENGTH, DIM)], lambda m, x: m(x)),
    "encoder_first": (
        lambda: layer(nn.TransformerEncoderLayer, "gelu", True),
        [(N, LENGTH, DIM)],
        lambda m, x: m(x, src_key_padding_mask=hidden_keys(LENGTH)),
    ),
    "decoder": (
        lambda: layer(nn.TransformerDecoderLayer, "gelu"),
        [(N, LENGTH, DIM), (N, MEMORY, DIM)],
        lambda m, x, y: m(x, y, tgt_mask=CAUSAL),
    ),
    "decoder_first": (
        lambda: layer(nn.TransformerDecoderLayer, norm_first=True),
        [(N, LENGTH, DIM), (N, MEMORY, DIM)],
        lambda m, x, y: m(x, y, memory_key_padding_mask=hidden_keys(MEMORY)),
    ),
    "rms_norm": (lambda: nn.RMSNorm(DIM), [(N, LENGTH, DIM)], lambda m, x: m(x)),
}


def drawn(key, shape):
    return torch.from_numpy(random(f"transformer/{key}").standard_normal(shape).astype("float32"))


def write(folder):
    tensors = {}
    for case, (make, shapes, call) in CASES.items():
        module = make()
        state = {name: drawn(f"{case}/state/{name}", tuple(t.shape)) for name, t in module.state_dict().items()}
        module.load_state_dict(state)
        module.double().eval()
        inputs = [drawn(f"{case}/in/{i}", shape) for i, shape in enumerate(shapes)]
        leaves = [x.double().requires_grad_() for x in inputs]
        out = call(module, *leaves)
        cotangent = drawn(f"{case}/cotangent", tuple(out.shape))
        out.backward(cotangent.double())
        tensors |= {f"{case}/state/{name}": t for name, t in state.items()}
        tensors |= {f"{case}/in/{i}": x for i, x in enumerate(inputs)}
        tensors |= {f"{case}/cotangent": cotangent, f"{case}/out": out.detach()}
        tensors |= {f"{case}/grad/in/{i}": x.grad for i, x in enumerate(leaves)}
        tensors |= {f"{case}/grad/state/{name}": p.grad for name, p in module.named_parameters()}
    path = folder / "transformer.safetensors"
    write_safetensors(path, {key: t.contiguous().numpy() for key, t in tensors.items()}, {})
    return [path]
