"""How much of the machine others used meanwhile. PyTorch's threads wait for each other by spinning, so on a busy
machine its steps can take ten times as long: such ratios say nothing about either side."""

import os

BUSY = 0.05  # of the CPUs; above, times are not to be trusted


def machine_seconds():
    """CPU seconds that all processes used since the start of the system, stolen time included."""
    with open("/proc/stat", encoding="utf-8") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """The same of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Watch:
    """Counts from its construction on."""

    def __init__(self):
        self.others, self.wall = machine_seconds() - own_seconds(), os.times().elapsed

    def share_of_others(self, of_children=0.0):
        """Of all CPUs' time, 0 to 1. `of_children`: CPU seconds of those that began since and still run."""
        wall = (os.times().elapsed - self.wall) * os.cpu_count()
        return max(0.0, machine_seconds() - own_seconds() - of_children - self.others) / wall if wall > 0 else 0.0
