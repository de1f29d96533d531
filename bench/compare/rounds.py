"""Commands in alternation: each side once a round, in random order, so that a change of the machine's speed meets all of them."""

import random
import statistics


def alternate(sides, rounds):
    """sides: {name: function that measures it}. -> [{name: its figure}], a round each."""
    names = list(sides)
    measured = []
    for _ in range(rounds):
        random.shuffle(names)
        measured.append({name: sides[name]() for name in names})
    return measured


def medians(rounds, *names):
    return [statistics.median(r[name] for r in rounds) for name in names]


def ratios(rounds, over, under):
    """Of two sides, round by round."""
    return [r[over] / r[under] for r in rounds]
