#!/usr/bin/env python3
"""The C++ examples of README.md, README.ko.md and docs/ compile: each is parsed as a reader would use it, in a function of his own.

    examples_test.py COMPILER INCLUDE_FOLDER...

An example that includes something is a file of its own; the others see context.h. A comment in front of an example says
otherwise: <!-- namespace NAME --> puts it there, <!-- not compiled: why --> leaves it out, <!-- runs in NAME --> leaves it to
guide_program.py. Of a table behind <!-- each cell of the right column is compiled --> that is done, with the names of names.h."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"(?:<!-- (?P<note>[^\n]*) -->\s*)?^(?P<indent> *)```cpp\n(?P<text>.*?)^ *```", re.M | re.S)

TABLE = re.compile(r"<!-- each cell of the right column is compiled -->\n(?P<rows>(?:\|[^\n]*\n)+)")
CELLS = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]+)`")


def cells_of(text):
    """(line, code) of each piece of code in the right columns of a document's tables of names."""
    for table in TABLE.finditer(text):
        first = text.count("\n", 0, table.start("rows")) + 1
        for n, row in enumerate(table["rows"].splitlines()[2:], 2):
            for code in CODE.findall(CELLS.split(row)[2]):
                yield first + n, code


def names_source(path, text):
    """A function in which each of them is a statement, or an expression."""
    lines = []
    for line, code in cells_of(text):
        statement = code if code.endswith(";") or code.startswith("try ") else f"(void)({code});"
        lines.append(f'#line {line} "{path}"\n{{ {statement} }}\n')
    return f'#include "docs/names.h"\nnamespace examples {{\nvoid names() {{\n{"".join(lines)}}}\n}}\n' if lines else ""


def compile_errors(compiler, includes, source):
    """What the compiler says of it; "" where it compiles."""
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "example.cpp"
        file.write_text(source)
        command = [compiler, "-std=c++20", "-fsyntax-only", "-w", *includes, str(file)]
        run = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, stderr=subprocess.PIPE, text=True)
    return "" if run.returncode == 0 else run.stderr or "no message"


def source_of(path, text):
    """The examples of a document as one C++ file; those that include something as files of their own."""
    alone, together = [], ['#include "docs/context.h"']
    for n, found in enumerate(EXAMPLE.finditer(text)):
        note, code = found["note"] or "", textwrap.dedent(found["text"])
        line = f'#line {text.count(chr(10), 0, found.start("text")) + 1} "{path}"\n'
        if note.startswith(("not compiled: ", "runs in ")):
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
    pages = [path for path in sorted((ROOT / "docs").glob("*.md")) if not path.name.endswith(".ko.md")]  # guide_program.py compares those
    documents = [ROOT / "README.md", ROOT / "README.ko.md", *pages]
    texts = [(path.relative_to(ROOT), path.read_text()) for path in documents]
    sources = [source for path, text in texts for source in source_of(path, text)]
    names = [source for path, text in texts if (source := names_source(path, text))]
    failed = 0
    for source in sources + names:
        errors = compile_errors(compiler, includes, source)
        failed += errors != ""
        sys.stderr.write(errors)
    # A name that is none is told with the page and the line where it stands.
    gone = "<!-- each cell of the right column is compiled -->\n| PyTorch | brim |\n| --- | --- |\n| `a` | `f32` |\n| `b` | `gone(x)` |\n"
    if "page.md:5:" not in compile_errors(compiler, includes, names_source("page.md", gone)):
        failed += 1
        print("a name that is gone was not found at page.md:5")
    count = sum(len(list(cells_of(text))) for _, text in texts)
    print(f"{len(sources)} files of examples, {len(names)} of names ({count}), {failed} do not compile")
    sys.exit(1 if failed or not sources or not count else 0)


if __name__ == "__main__":
    main()
