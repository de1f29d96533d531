"""Instruction sets: what keeps each side from using more than it is to, set before any of them is loaded."""

import os

# For each --isa. Those who have no switch use what the CPU has.
SWITCHES = {
    "avx2": {
        "BRIM_CPU_ISA": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OV_CPU_MAX_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "avx512": {
        "BRIM_CPU_ISA": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI",
        "OV_CPU_MAX_ISA": "AVX512_CORE_VNNI",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
}
VECTOR_BITS = {"avx2": 256, "avx512": 512}  # of the code that torch.compile makes
NATIVE = "the CPU's: it has no switch"


def limit(isa, environment=os.environ):
    """For this process and its children."""
    environment.update(SWITCHES.get(isa, {}))


def used_by(side, isa):
    """In words, for the report."""
    if not isa:
        return "the CPU's"
    if side in ("onnxruntime", "ncnn"):
        return NATIVE
    if side == "openvino":
        return f"{isa}, but for products by MLAS, and before 2026.4 for its own kernels"
    return isa
