#!/usr/bin/env python3
"""Every CUDA kernel begins with begin_kernel(): above it, with dependent launches, what earlier kernels write is not there yet.

That all threads call it, the emulation checks; that nothing stands above it, only the text tells."""
import pathlib
import re
import sys

KERNEL = re.compile(r"__global__[^;{]*\{\s*([^;]*;)")  # up to its first statement


def late(text):
    """The kernels of a source that do something before they begin."""
    code = re.sub(r"//[^\n]*", "", text)
    return [" ".join(k[0].split())[:80] for k in KERNEL.finditer(code) if k[1] != "begin_kernel();"]


def main():
    assert late("__global__ void f(int* x) {\n  begin_kernel();\n  *x = 1;\n}") == []
    assert late("__global__ void f(int* x) {\n  *x = 1;\n  begin_kernel();\n}") != []
    root = pathlib.Path(__file__).resolve().parents[3] / "src"
    sources = [path for path in sorted(root.rglob("*.cu*")) if path.suffix in (".cu", ".cuh")]
    code = [re.sub(r"//[^\n]*", "", path.read_text()) for path in sources]
    kernels = sum(len(KERNEL.findall(text)) for text in code)
    assert kernels == sum(text.count("__global__") for text in code), "a kernel is not read"
    found = [f"{path.relative_to(root)}: {kernel}" for path in sources for kernel in late(path.read_text())]
    for line in found:
        print("begin_kernel(); is not its first statement:", line)
    print(f"{kernels} kernels in {len(sources)} files")
    sys.exit(1 if found or kernels == 0 else 0)


if __name__ == "__main__":
    main()
