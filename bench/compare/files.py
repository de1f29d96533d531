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
    """Atomically, through a new file beside it; to standard output for "-"."""
    if path == "-":
        print(text, end="")
        return
    temporary = f"{path}.{secrets.token_hex(8)}.tmp"
    with open(temporary, "x", encoding="utf-8") as file:  # a new file, never what a link leads to
        file.write(text)
    os.replace(temporary, path)
