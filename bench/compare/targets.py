"""The bars that brim sets itself, and whether a report reaches them."""

import dataclasses

from compare.busy import BUSY

# brim compiled against PyTorch's best of eager and torch.compile.
SPEEDUPS = {
    "tutorial-b4": 12.0,
    "tutorial-b128": 6.0,
    "mlp-784-128-10-b8": 4.0,
    "mlp-784-512-512-10-b32": 1.4,
    "resnet18-32-b64": 1.15,
    "resnet18-224-b16": 1.15,
    "matmul-1024": 1.0,
    "conv-64x56x56": 1.0,
    "conv-64x56x56-train": 1.0,
    "attention-4096-train": 1.2,
    "lstm": 1.5,
    "gru": 1.5,
}
MEMORY_SHARE = 0.6  # of PyTorch's, in training
DISTANCE = 1e-4  # of the weights' changes


@dataclasses.dataclass
class Verdict:
    what: str
    target: str
    value: str
    passed: bool
    doubt: str = ""  # why the value may be wrong

    def word(self):
        return ("pass" if self.passed else "FAIL") + (f", but {self.doubt}" if self.doubt else "")


def verdicts(report):
    """One for each bar that the report has a value for."""
    result = []
    for timed in report.get("time", []):
        target = SPEEDUPS.get(timed["case"])
        if target and "speedup_compiled" in timed:
            value = timed["speedup_compiled"]["median"]
            what = f"{timed['case']}: speed, brim compiled / PyTorch's best"
            others = timed["others_share_of_cpus"]
            doubt = f"others used {100 * others:.0f} % of the CPUs" if others > BUSY else ""
            result.append(Verdict(what, f">= {target:g}x", f"{value:.2f}x", value >= target, doubt))
    for measured in report.get("memory", []):
        value = measured["share_compiled"]
        what = f"{measured['case']}: peak memory, brim compiled / PyTorch's least"
        result.append(Verdict(what, f"<= {MEMORY_SHARE:g}", f"{value:.2f}", value <= MEMORY_SHARE))
    for compared in report.get("equality", []):
        for mode in ("eager", "compiled"):
            value = compared[mode]["distance"]
            what = f"{compared['case']}: weights after {compared['steps']} steps, brim {mode}"
            itself = compared["torch_itself"]["distance"]
            doubt = f"PyTorch is {itself:.1e} from itself on other threads" if value > DISTANCE < itself else ""
            result.append(Verdict(what, f"<= {DISTANCE:g}", f"{value:.1e}", value <= DISTANCE, doubt))
    return result
