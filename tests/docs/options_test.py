#!/usr/bin/env python3
"""Public options compile as designated initialisers without a warning: those in designated_options.cpp, which has all of them.

    options_test.py COMPILER INCLUDE_FOLDER..."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/docs/designated_options.cpp"
STRUCT = re.compile(r"^( *)(?:struct|class) (\w+)[^;{]*\{", re.M)


def options_of(header):
    """Names of structs of options and recipes, those within a class behind its name."""
    around = []
    for indent, name in STRUCT.findall(header):
        around = [outer for outer in around if len(outer[0]) < len(indent)] + [(indent, name)]
        if name.endswith(("Options", "Recipe")):
            yield "::".join(outer for _, outer in around)


def main():
    compiler, includes = sys.argv[1], [f"-I{folder}" for folder in sys.argv[2:]]
    listed = PROGRAM.read_text()
    missing = 0
    for header in sorted((ROOT / "include/brim").rglob("*.h")):
        for name in options_of(header.read_text()):
            if not re.search(rf"\b{name}\{{", listed):
                missing += 1
                print(f"{header.relative_to(ROOT)}: {name} is not in {PROGRAM.relative_to(ROOT)}")
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    compiled = subprocess.run([compiler, *flags, *includes, str(PROGRAM)], check=False).returncode == 0
    sys.exit(1 if missing or not compiled else 0)


if __name__ == "__main__":
    main()
