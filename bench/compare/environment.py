"""The Python and the machine that a comparison runs on."""

import platform
import sys

from compare.command import fail


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        return platform.processor()


def import_torch(command):
    """PyTorch; ends the program with how to install it for `command` where it is missing."""
    try:
        import torch
    except ImportError as error:
        fail(
            f"PyTorch is missing from {sys.executable} ({error}); install it into a virtual environment: "
            "python3 -m venv ~/venv-torch && ~/venv-torch/bin/pip install torch torchvision safetensors numpy, "
            f"then run: {command} --python ~/venv-torch/bin/python"
        )
    return torch
