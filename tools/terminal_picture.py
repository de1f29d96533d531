#!/usr/bin/env python3
"""A picture (SVG) of what a command shows in a terminal, for the docs.

    terminal_picture.py --size 80x24 [--seconds 2] [--keys KEYS] -o FILE.svg -- COMMAND...

Runs the command in a terminal of that size, types KEYS after a second, and draws the screen. Needs pyte (PyPI), the terminal.
"""

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from xml.sax.saxutils import escape

import pyte

WIDTH, HEIGHT, MARGIN = 8, 17, 10  # of a character and around the screen
NO_BREAK = "\u00a0"  # a space that no renderer takes away
BACK, TEXT = "#12161d", "#d8dee9"
COLOURS = {"black": "#3b4252", "red": "#e06c75", "green": "#7ec699", "brown": "#e5c07b", "yellow": "#e5c07b", "blue": "#6ea8fe",
           "magenta": "#c792ea", "cyan": "#56c8d8", "white": "#eceff4", "default": TEXT}


def screen_of(command, columns, rows, seconds, keys):
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    begin, typed = time.monotonic(), False
    while (now := time.monotonic() - begin) < seconds:
        if not typed and now > seconds / 2:
            os.write(terminal, keys.encode())
            typed = True
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                stream.feed(os.read(terminal, 1 << 16))
            except OSError:  # it has ended
                break
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    return screen


def colour_of(character):
    name = character.bg if character.reverse else character.fg
    if name == "default" and character.reverse:
        return BACK
    return COLOURS.get(name, f"#{name}" if len(name) == 6 else TEXT)


def runs_of(line, columns):
    """(column, text, character) of what looks alike."""
    runs = []
    for x in range(columns):
        character = line[x]
        look = (character.fg, character.bg, character.bold, character.reverse)
        if runs and runs[-1][3] == look:
            runs[-1][1].append(character.data)
        else:
            runs.append((x, [character.data], character, look))
    return [(x, "".join(text), character) for x, text, character, _ in runs]


def svg_of(screen):
    width, height = screen.columns * WIDTH + 2 * MARGIN, screen.lines * HEIGHT + 2 * MARGIN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13">',
             f'<rect width="{width}" height="{height}" rx="6" fill="{BACK}"/>']
    for y in range(screen.lines):
        for x, text, character in runs_of(screen.buffer[y], screen.columns):
            left, top = MARGIN + x * WIDTH, MARGIN + y * HEIGHT
            if character.reverse:
                back = COLOURS.get(character.fg, TEXT)
                parts.append(f'<rect x="{left}" y="{top}" width="{len(text) * WIDTH}" height="{HEIGHT}" fill="{back}"/>')
            if text.strip():
                bold = ' font-weight="bold"' if character.bold else ""
                stripped = text.rstrip()
                shown = escape(stripped).replace(" ", NO_BREAK)
                parts.append(f'<text x="{left}" y="{top + 13}" textLength="{len(stripped) * WIDTH}" lengthAdjust="spacingAndGlyphs" '
                             f'fill="{colour_of(character)}"{bold}>{shown}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size", default="80x24")
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--keys", default="")
    arguments.add_argument("-o", "--out", required=True)
    arguments.add_argument("command", nargs="+")
    given = arguments.parse_args()
    columns, rows = map(int, given.size.split("x"))
    screen = screen_of(given.command, columns, rows, given.seconds, given.keys)
    with open(given.out, "w", encoding="utf-8") as file:
        file.write(svg_of(screen))


if __name__ == "__main__":
    main()
