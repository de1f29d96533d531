#!/usr/bin/env python3
"""What bench/compare_deploy.py makes of its measurements: verdicts, tables, the chart, joules. Needs no package."""

import argparse
import json
import os
import struct
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

from compare.deploy import chart, energy, isa, tables, targets  # noqa: E402

try:
    from compare.deploy import outside as processes
    from compare.deploy import samples, timing
except ImportError:  # there is no NumPy
    samples = None

MIB = 1 << 20


def timed(model, precision, brim_us, peer_us, others=0.0):
    """A record of deploy.timing; OpenVINO takes twice as long as ONNX Runtime, ncnn is absent."""

    def side(us, difference=2e-7, joules=None):
        return {
            "min_us": us / 2,
            "p50_us": us,
            "p99_us": 2 * us,
            "cpu_us": 3 * us,
            "samples_per_s": 1e6 / us,
            "joules_per_sample": joules,
            "difference": difference,
            "round_medians_us": [us, us],
        }

    speedup = {"median": peer_us / brim_us, "min": 1.0, "max": 9.0}
    return {
        "model": model,
        "precision": precision,
        "batch": 1,
        "flops_per_sample": 1e6,
        "sides": {"brim": side(brim_us, 3e-3, 0.5), "onnxruntime": side(peer_us), "openvino": side(2 * peer_us)},
        "absent": {"ncnn": "its <converter> & nothing"},
        "others_share_of_cpus": others,
        "best_peer": "onnxruntime",
        "speedup": speedup,
        "speedup_of_fastest_calls": 2.5,
        "speedup_of_cpu_time": 1.5,
        "speedup_over_torch": speedup,
    }


def outside(brim_ms, peer_ms, brim_mib, peer_mib):
    def side(ms, mib):
        sizes = {"file_bytes": MIB, "runtime_bytes": 2 * MIB}
        return {"file_to_result_s": ms / 1e3, "import_s": 0.1, "process_s": 0.2, "peak_rss": mib * MIB} | sizes

    sides = {"brim": side(brim_ms, brim_mib), "onnxruntime": side(peer_ms, peer_mib)}
    return {"model": "mlp", "precision": "fp32", "batch": 1, "python_peak_rss": 30 * MIB, "sides": sides}


def report():
    return {
        "cpu": "A & B <C>",
        "threads": 2,
        "isa": "avx2",
        "fma_peak": {"gflops": 10.0},
        "time": [
            timed("tutorial-cnn", "fp32", 10, 60),
            timed("resnet18", "fp32", 120, 126),
            timed("resnet50", "int8", 100, 105, others=0.5),
            timed("mlp", "fp32", 100, 90),
        ],
        "outside": [outside(1, 50, 33, 60)],
    }


class DeployTest(unittest.TestCase):
    def test_verdicts(self):
        found = {v.what: v for v in targets.verdicts(report())}
        tutorial = found["tutorial-cnn fp32, batch 1: speed, brim / onnxruntime"]
        self.assertEqual((tutorial.target, tutorial.value, tutorial.word()), (">= 5x", "6.00x", "pass"))
        # Slower than its bar, but near the machine's peak.
        resnet = found["resnet18 fp32, batch 1: speed, brim / onnxruntime"]
        self.assertEqual((resnet.value, resnet.word()), ("1.05x, 83 % of peak", "pass"))
        integers = found["resnet50 int8, batch 1: speed, brim / onnxruntime"]
        self.assertEqual((integers.value, integers.word()), ("1.05x", "FAIL, but others used 50 % of the CPUs"))
        self.assertFalse(found["mlp fp32, batch 1: speed, brim / onnxruntime"].passed)
        far = found["mlp fp32, batch 1: largest difference from the network"]
        self.assertEqual((far.value, far.passed), ("3.0e-03", False))
        self.assertNotIn("resnet50 int8, batch 1: largest difference from the network", found)
        self.assertEqual(found["mlp fp32, batch 1: start-up, ONNX Runtime / brim"].value, "50.0x")
        self.assertEqual(found["mlp fp32, batch 1: peak memory, brim / ONNX Runtime"].value, "0.10")
        self.assertEqual(targets.verdicts({}), [])

    def test_verdicts_without_brim(self):
        made = report()
        for record in made["time"]:
            del record["sides"]["brim"], record["speedup"]
        del made["outside"][0]["sides"]["brim"]
        self.assertEqual(targets.verdicts(made), [])
        self.assertEqual(tables.verdict_table(made), "")
        self.assertIn("onnxruntime", tables.time_lines(made["time"][0]))
        self.assertIn("svg", chart.svg(made))

    def test_tables(self):
        made = report()
        text = tables.time_lines(made["time"][2])
        for word in ("0.050", "0.100", "0.200", "0.300", "10000.0", "0.5", "3.0e-03", "ncnn         absent: its <converter>"):
            self.assertIn(word, text)
        self.assertIn("brim is 1.05x (1.00..9.00) as fast as onnxruntime; fastest calls 2.50x, CPU time 1.50x; 1.05x as PyTorch", text)
        self.assertIn("others used 50 % of the CPUs", text)
        first, second = tables.outside_lines(made["outside"][0]).splitlines()
        self.assertEqual(first.split(), ["mlp", "fp32", "brim", *"1.00 100.0 200.0 33.0 3.0 1.00 2.00".split()])
        self.assertEqual(second.split()[0], "onnxruntime")
        self.assertIn("FAIL", tables.verdict_table(made))

    def test_chart(self):
        root = xml.etree.ElementTree.fromstring(chart.svg(report()))
        words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for word in ("6.00x  (10.0 µs)", "target 5x", "resnet18 fp32, batch 1", "50.0 ms", "3.0 MiB", "2.0 MiB"):
            self.assertIn(word, words)
        self.assertIn("A & B <C>", words[0])

    def test_joules(self):
        with tempfile.TemporaryDirectory() as root:

            def write(zone, name, value):
                os.makedirs(os.path.join(root, zone), exist_ok=True)
                with open(os.path.join(root, zone, name), "w", encoding="ascii") as file:
                    file.write(f"{value}\n")

            self.assertIn("no RAPL counter", energy.why_absent(root))
            self.assertIsNone(energy.since(energy.read(root)))
            for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:1", "package-1"), ("intel-rapl:0:0", "core")):
                write(zone, "name", name)
                write(zone, "max_energy_range_uj", 10_000_000)
                write(zone, "energy_uj", 9_000_000)
            before = energy.read(root)
            write("intel-rapl:0", "energy_uj", 9_500_000)
            write("intel-rapl:1", "energy_uj", 1_000_000)  # past its range
            self.assertAlmostEqual(energy.since(before), 2.5)
            self.assertIsNone(energy.why_absent(root))

    @unittest.skipUnless(samples, "needs NumPy")
    def test_samples(self):
        floats = {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
        count = {"dtype": "I64", "shape": [], "data_offsets": [8, 16]}
        header = json.dumps({"__metadata__": {"a": "b"}, "x": floats, "n": count}).encode()
        with tempfile.NamedTemporaryFile() as file:
            file.write(struct.pack("<Q", len(header)) + header + struct.pack("<ffq", 1, -2, 7))
            file.flush()
            tensors = samples.read(file.name)
            self.assertEqual((tensors["x"].tolist(), int(tensors["n"])), ([[1, -2]], 7))
            self.assertEqual(list(samples.read(file.name, ["n"])), ["n"])
        self.assertEqual(samples.difference(tensors["x"] + 1, tensors["x"]), 0.5)
        self.assertEqual(samples.difference(tensors["x"][0], tensors["x"]), float("inf"))

    @unittest.skipUnless(samples, "needs NumPy")
    def test_speedups(self):
        def side(*medians):
            return {"min_us": min(medians), "p50_us": medians[1], "cpu_us": sum(medians), "round_medians_us": medians}

        measured = {"brim": side(1, 2, 4), "ncnn": side(5, 8, 8), "openvino": side(4, 4, 4), "torch": side(2, 2, 2)}
        found = timing.speedups(measured)
        self.assertEqual((found["best_peer"], found["speedup"]), ("openvino", {"median": 2, "min": 1, "max": 4}))
        self.assertEqual(found["speedup_over_torch"]["median"], 1)
        self.assertEqual((found["speedup_of_fastest_calls"], found["speedup_of_cpu_time"]), (4, 12 / 7))
        del measured["brim"]
        self.assertEqual(timing.speedups(measured), {})

    @unittest.skipUnless(samples, "needs NumPy")
    def test_processes(self):
        def record(side, *_):
            if side == "torch":
                return {"process_s": 1, "absent": "no such network"}
            seconds = {"file_to_result_s": 0.25, "import_s": 0.5, "process_s": 1}
            mapped = ["/lib/libc.so.6", os.path.abspath(__file__), *([] if side == "python" else [fake])]
            return seconds | {"peak_rss": 7, "libraries": mapped}

        kept, processes.run_once = processes.run_once, record
        self.addCleanup(setattr, processes, "run_once", kept)
        with tempfile.NamedTemporaryFile(suffix=".so") as library:
            fake = library.name
            library.write(b"1234")
            library.flush()
            about = {"model": "mlp", "precision": "int8", "absent": {"ncnn": "its converter"}, "files": {"onnx": fake}}
            options = argparse.Namespace(rounds=3)
            made = processes.compare(about, 1, options, ["onnxruntime", "ncnn", "torch"])
        self.assertEqual(made["absent"], {"ncnn": "its converter", "torch": "no such network"})
        found = made["sides"]["onnxruntime"]
        self.assertEqual(list(made["sides"]), ["onnxruntime"])
        self.assertEqual((found["file_bytes"], found["runtime_bytes"], found["libraries"]), (4, 4, {fake: 4}))
        self.assertEqual((found["file_to_result_s"], made["python_peak_rss"]), (0.25, 7))

    def test_instruction_sets(self):
        environment = {}
        isa.limit("avx2", environment)
        self.assertEqual(environment["ONEDNN_MAX_CPU_ISA"], "AVX2")
        isa.limit(None, environment := {})
        self.assertEqual(environment, {})
        self.assertEqual(isa.used_by("onnxruntime", "avx2"), isa.NATIVE)
        self.assertEqual(isa.used_by("brim", "avx2"), "avx2")
        self.assertEqual(isa.used_by("ncnn", None), "the CPU's")


if __name__ == "__main__":
    unittest.main()
