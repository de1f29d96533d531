"""The files that the scripts write."""

import argparse
import os
import secrets


def file_name(text):
    """For argparse: an unset shell variable names no file."""
    if not text:
        raise argparse.ArgumentTypeError("an empty value; give one, or leave it out (is a shell variable unset?)")
    return text


def write_text(path, text):
    """Atomically, through a new file beside it, where a link leads, too; to standard output for "-"."""
    if path == "-":
        print(text, end="")
        return
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device is not replaced
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    temporary = f"{path}.{secrets.token_hex(8)}.tmp"
    with open(temporary, "x", encoding="utf-8") as file:  # a new file, never what a link leads to
        file.write(text)
    os.replace(temporary, path)
