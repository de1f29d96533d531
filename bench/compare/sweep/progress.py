"""How far a sweep is, on standard error: a line that is drawn over on a terminal, else one every few seconds."""

import sys
import time

LINE_SECONDS = 10
WIDTH = 79


class Progress:
    def __init__(self, total):
        self.total, self.begin = total, time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.last = self.begin

    def show(self, done, what):
        now = time.monotonic()
        if now - self.last < (0.1 if self.terminal else LINE_SECONDS):
            return
        self.last = now
        left = (now - self.begin) / max(done, 1) * (self.total - done)
        text = f"{done} of {self.total} cases, about {left / 60:.1f} min left: {what}"
        if self.terminal:
            print(f"\r{text[:WIDTH]:<{WIDTH}}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def clear(self):
        if self.terminal:
            print(f"\r{'':<{WIDTH}}\r", end="", file=sys.stderr, flush=True)
