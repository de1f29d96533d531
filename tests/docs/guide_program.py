#!/usr/bin/env python3
"""The C++ examples of a document that run, as one program, and what that prints held against the document.

    guide_program.py write DOCUMENT PROGRAM.cpp
    guide_program.py check DOCUMENT PROGRAM [TRANSLATION]

<!-- runs in NAME --> in front of an example puts it into the function NAME, behind the examples of that name before it: they
share their variables. What it prints is the ```text block right behind it; without one it prints nothing, unless the comment
goes on with ", prints what depends on the machine". A translation has the same examples, outputs and names in the same order."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from examples_test import EXAMPLE, TABLE

NOTE = re.compile(r"runs in (?P<name>\w+)(?P<varies>, prints what depends on the machine)?")
OUTPUT = re.compile(r"\s*```text\n(?P<text>.*?)^```", re.M | re.S)
MARK = "@@@ "


def examples_of(text):
    """(function, line, code, output) of each example that runs; None for an output that nobody knows before."""
    for found in EXAMPLE.finditer(text):
        if note := NOTE.fullmatch((found["note"] or "").strip()):
            output = OUTPUT.match(text, found.end())
            line = text.count("\n", 0, found.start("text")) + 1
            known = output["text"] if output else ""
            yield note["name"], line, found["text"], None if note["varies"] else known


def program_of(document):
    functions = {}
    for name, line, code, _ in examples_of(document.read_text()):
        functions.setdefault(name, []).append(f'std::puts("{MARK}{line}");\n#line {line} "{document}"\n{code}')
    parts = ["#include <chrono>", "#include <cstdio>", "#include <iostream>", "#include <string>", "#include <vector>",
             "#include <brim/brim.h>", "#include <brim/core/print.h>", "using namespace brim;"]
    for name, blocks in functions.items():
        parts.append(f"static void {name}() {{\n" + "\n".join(blocks) + "}")
    calls = " ".join(f"{name}();" for name in functions)
    parts.append(f"int main() {{ std::ios::sync_with_stdio(true); {calls} }}")
    return "\n".join(parts) + "\n"


def code_of(text):
    """All of a document that is the same in each language."""
    return ([found["text"] for found in EXAMPLE.finditer(text)], [(name, output) for name, _, _, output in examples_of(text)],
            TABLE.findall(text))


def check(document, program, translation=None):
    text = document.read_text()
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([os.path.abspath(program)], cwd=folder, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{document}: the examples end with {run.returncode}\n{run.stdout[-2000:]}{run.stderr}")
    printed = {}
    for part in run.stdout.split(MARK)[1:]:
        line, _, rest = part.partition("\n")
        printed[int(line)] = rest
    failed, examples = 0, list(examples_of(text))
    for _, line, _, output in examples:
        says = printed.get(line)
        if not says if output is None else says != output:
            failed += 1
            print(f"{document}:{line}: the document has\n{output}\nbut the example prints\n{says}")
    if translation:
        if code_of(translation.read_text()) != code_of(text):
            failed += 1
            print(f"{translation}: its examples, outputs or names are not those of {document}")
    print(f"{len(examples)} examples of {document.name} ran, {failed} failed")
    return 1 if failed or not examples else 0


def main():
    command, document, program, *translation = sys.argv[1:]
    if command == "write":
        pathlib.Path(program).write_text(program_of(pathlib.Path(document)))
    else:
        sys.exit(check(pathlib.Path(document), program, *map(pathlib.Path, translation)))


if __name__ == "__main__":
    main()
