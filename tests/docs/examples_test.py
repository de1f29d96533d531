#!/usr/bin/env python3
"""The C++ examples of README.md and docs/ compile: each is parsed as a reader would use it, in a function of his own.

    examples_test.py COMPILER INCLUDE_FOLDER...

An example that includes something is a file of its own; the others see context.h. A comment in front of an example says
otherwise: <!-- namespace NAME --> puts it there, <!-- not compiled: why --> leaves it out."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"(?:<!-- (?P<note>[^\n]*) -->\s*)?^(?P<indent> *)```cpp\n(?P<text>.*?)^ *```", re.M | re.S)


def source_of(path, text):
    """The examples of a document as one C++ file; those that include something as files of their own."""
    alone, together = [], ['#include "docs/context.h"']
    for n, found in enumerate(EXAMPLE.finditer(text)):
        note, code = found["note"] or "", textwrap.dedent(found["text"])
        line = f'#line {text.count(chr(10), 0, found.start("text")) + 1} "{path}"\n'
        if note.startswith("not compiled: "):
            continue
        if note.startswith("namespace "):
            alone.append(f'#include "docs/internals.h"\n{note} {{\n{line}{code}}}\n')
        elif "#include" in code or code.startswith("namespace "):
            alone.append(("" if "#include" in code else '#include "docs/internals.h"\n') + line + code)
        else:
            together.append(f"namespace examples {{\nvoid example{n}() {{\n{line}{code}}}\n}}\n")
    return alone + (["\n".join(together)] if len(together) > 1 else [])


def main():
    compiler, includes = sys.argv[1], [f"-I{folder}" for folder in sys.argv[2:]]
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    sources = [source for path in documents for source in source_of(path.relative_to(ROOT), path.read_text())]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for n, source in enumerate(sources):
            file = pathlib.Path(scratch) / f"example{n}.cpp"
            file.write_text(source)
            command = [compiler, "-std=c++20", "-fsyntax-only", "-w", *includes, str(file)]
            failed += subprocess.run(command, env={**os.environ, "LC_ALL": "C"}).returncode != 0
    print(f"{len(sources)} files of examples, {failed} do not compile")
    sys.exit(1 if failed or not sources else 0)


if __name__ == "__main__":
    main()
