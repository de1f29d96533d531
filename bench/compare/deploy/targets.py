"""The bars that brim sets itself for engines, and whether a report reaches them."""

from compare.busy import BUSY
from compare.targets import Verdict

PEERS = ("onnxruntime", "openvino", "ncnn")
# brim against the fastest of these; or so much of the FMA peak.
SPEEDUPS = {"tutorial-cnn": 5.0, "mobilenet_v2": 1.3, "resnet18": 1.1, "resnet50": 1.1}
SPEEDUP = 1.0  # of all others
PEAK_SHARES = {"resnet18": 0.8, "resnet50": 0.8}
STARTUP = 10.0  # times as fast as ONNX Runtime
MEMORY_SHARE = 0.5  # of ONNX Runtime's, above what Python and NumPy take
DISTANCE = 1e-5  # of brim's engine from the network, fp32


def case(record):
    return f"{record['model']} {record['precision']}, batch {record['batch']}"


def peak_share(record, report):
    """Of the multiply-adds that the machine can do; None where it was not measured, or integers are no multiply-adds."""
    peak = report.get("fma_peak")
    if not peak or "brim" not in record["sides"] or record["precision"] != "fp32":
        return None
    return record["flops_per_sample"] * record["sides"]["brim"]["samples_per_s"] / (peak["gflops"] * 1e9)


def time_verdict(record, report):
    target = SPEEDUPS.get(record["model"], SPEEDUP)
    value = record["speedup"]["median"]
    share, share_target = peak_share(record, report), PEAK_SHARES.get(record["model"])
    reaches_peak = share is not None and share_target is not None and share >= share_target and value >= SPEEDUP
    text = f"{value:.2f}x" + (f", {100 * share:.0f} % of peak" if share_target and share is not None else "")
    others = record["others_share_of_cpus"]
    doubt = f"others used {100 * others:.0f} % of the CPUs" if others > BUSY else ""
    what = f"{case(record)}: speed, brim / {record['best_peer']}"
    return Verdict(what, f">= {target:g}x", text, value >= target or reaches_peak, doubt)


def outside_verdicts(record):
    brim, peer = (record["sides"].get(side) for side in ("brim", "onnxruntime"))
    if not brim or not peer:
        return
    value = peer["file_to_result_s"] / brim["file_to_result_s"]
    what = f"{case(record)}: start-up, ONNX Runtime / brim"
    yield Verdict(what, f">= {STARTUP:g}x", f"{value:.1f}x", value >= STARTUP)
    bare = record["python_peak_rss"]
    value = (brim["peak_rss"] - bare) / max(peer["peak_rss"] - bare, 1)
    what = f"{case(record)}: peak memory, brim / ONNX Runtime"
    yield Verdict(what, f"<= {MEMORY_SHARE:g}", f"{value:.2f}", value <= MEMORY_SHARE)


def verdicts(report):
    """One for each bar that the report has a value for."""
    result = []
    for record in report.get("time", []):
        if "speedup" in record:
            result.append(time_verdict(record, report))
        brim = record["sides"].get("brim")
        if brim and record["precision"] == "fp32":
            value = brim["difference"]
            what = f"{case(record)}: largest difference from the network"
            result.append(Verdict(what, f"<= {DISTANCE:g}", f"{value:.1e}", value <= DISTANCE))
    for record in report.get("outside", []):
        result += outside_verdicts(record)
    return result
