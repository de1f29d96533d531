#!/usr/bin/env python3
"""Include-direction check: a folder includes only folders below it, and public headers stand alone. Files are opened
for writing in one place.

Prints `file:line: what; rule` for each violation and exits 1 when there is one.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Each row may include itself and every row above it; folders in one row may not include each other.
LAYERS = [
    ["core"],
    ["formula"],
    ["extend"],
    ["diag"],
    ["backend"],
    ["rt"],
    ["autograd"],
    ["ops"],
    ["nn", "optim"],
    ["compress"],
    ["plan"],
    ["io"],
    ["data"],
    ["deploy"],
    ["dist"],
    ["train"],
    ["command"],
]
# Includes that cross a row on purpose: folder -> beginnings of the paths it may include as well.
ALLOWED = {
    "core": ["diag/span.h"],  # host reads charge the account; span.h itself includes nothing above core
    "autograd": ["brim/ops/"],  # gradients are summed and seeded by public ops, so double backward works
}

# What CMake fills in.
GENERATED = ("brim/version.h", "brim/interface.h")

RANK = {folder: rank for rank, row in enumerate(LAYERS) for folder in row}
OPENING = "core/open_to_write"  # .h and .cpp
OPENS = re.compile(r"\b(?:o?fstream|fopen|O_CREAT|archive_write_open_filename)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed(source, target):
    return source == target or RANK[target] < RANK[source]


def folder_of(parts):
    """First folder below include/brim or src; None for a file that lies directly there."""
    if parts[:2] == ("bench", "command"):
        return "command"  # what `brim bench` does is a part of the command
    return parts[0] if len(parts) > 1 else None


def file_of(target):
    """The file of a quoted include."""
    return ROOT / target if target.startswith("bench/") else ROOT / "src" / target


def check(path):
    public = path.is_relative_to(ROOT / "include")
    root = "include/brim" if public else "src" if path.is_relative_to(ROOT / "src") else "."
    folder = folder_of(path.relative_to(ROOT / root).parts)
    name = path.relative_to(ROOT)
    if folder is not None and folder not in RANK:
        yield f"{name}:1: folder '{folder}' has no place in LAYERS of tools/check_includes.py"
        return
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".h" and not path.name.endswith("-inl.h") and "#pragma once" not in text:
        yield f"{name}:1: no '#pragma once'; each header has it (but *-inl.h, compiled once per instruction set)"
    for number, line in enumerate(text.splitlines(), 1):
        if OPENS.search(line) and f"src/{OPENING}" != str(name.with_suffix("")) and not INCLUDE.match(line):
            yield f"{name}:{number}: {line.strip()}; files are opened for writing by {OPENING}.h, which follows no link"
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()
        parts = Path(target).parts
        where = f"{name}:{number}: #include {quote}{target}{'>' if quote == '<' else quote}"
        if quote == '"' and not file_of(target).is_file():
            yield f'{where}; quoted includes are paths from src/ or of bench/command, and that file does not exist'
            continue
        if quote == "<" and parts[0] == "brim":
            if target not in GENERATED and not (ROOT / "include" / target).is_file():
                yield f"{where}; that public header does not exist"
                continue
            to = folder_of(parts[1:])
        elif quote == '"':
            if public:
                yield f"{where}; a public header may not include an internal one"
                continue
            to = folder_of(parts)
        else:
            # The standard library's headers have no dot and no slash.
            of_cuda = target.startswith("cuda_") and path.name.startswith("cuda")
            if public and ("/" in target or "." in target) and not of_cuda:
                yield f"{where}; public headers include only the standard library and <brim/...>"
            continue
        # Files beside the folders (brim/brim.h, brim/version.h) gather or name, and belong to no row.
        if folder is None or (to is None and target in GENERATED):
            continue
        if to is None:
            yield f"{where}; the gathering header is for users, not for brim itself"
        elif to not in RANK:
            yield f"{where}; folder '{to}' has no place in LAYERS of tools/check_includes.py"
        elif not allowed(folder, to) and not target.startswith(tuple(ALLOWED.get(folder, ()))):
            yield f"{where}; {folder}/ may include only " + ", ".join(f for f in RANK if allowed(folder, f))


def main():
    files = sorted(
        path
        for top in ("include/brim", "src", "bench/command")
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".h", ".cpp", ".cu", ".cuh")
    )
    violations = [v for path in files for v in check(path)]
    for violation in violations:
        print(violation)
    print(f"include check: {len(files)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
