#!/usr/bin/env python3
"""What bench/compare_torch.py makes of its measurements: verdicts, tables, the chart and files. Needs no PyTorch."""

import argparse
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

from compare import chart, files, tables, targets  # noqa: E402


def timed(case, torch_us, brim_us, others=0.0):
    """A record of compare.timing with one figure a side; torch.compile takes 0.8 of eager's time."""

    def even(value):
        return {"median": value, "min": value, "max": value}

    us = {"torch eager": torch_us, "torch compile": 0.8 * torch_us, "brim eager": 2 * brim_us, "brim compiled": brim_us}
    return {
        "case": case,
        "us_per_step": {key: even(value) for key, value in us.items()},
        "torch_best": "torch compile",
        "torch_eager_best": "torch eager",
        "torch_compile_best": "torch compile",
        "missing": {"compile channels-last": "BackendError: <none> & nothing"},
        "others_share_of_cpus": others,
        "brim": {"compiled": {"mode": "compiled", "flops": 1e6, "peak_gflops": 100.0, "share_of_peak": 0.1}},
        "speedup_compiled": even(0.8 * torch_us / brim_us),
    }


def report():
    memory = {"torch eager": 1000 << 20, "torch compile": None, "brim eager": 650 << 20, "brim compiled": 500 << 20}
    close = {"distance": 2e-6, "worst_of_draws": [2e-6, 1e-6, 5e-4]}
    far = {"distance": 3e-3, "worst_of_draws": [3e-3]}
    return {
        "torch": "9.9",
        "threads": 2,
        "cpu": "A & B <C>",
        "time": [timed("tutorial-b4", 2000, 100), timed("matmul-1024", 1000, 900, others=0.5), timed("add-16", 1, 1)],
        "memory": [
            {"case": "resnet18-32-b64", "peak_rss": memory, "share_compiled": 0.5, "share_eager": 0.65},
        ],
        "equality": [{"case": "tutorial-b4", "steps": 200, "eager": close, "compiled": far, "torch_itself": far}],
    }


class ReportTest(unittest.TestCase):
    def test_verdicts(self):
        found = {v.what: v for v in targets.verdicts(report())}
        tutorial = found["tutorial-b4: speed, brim compiled / PyTorch's best"]
        self.assertEqual((tutorial.target, tutorial.value, tutorial.word()), (">= 12x", "16.00x", "pass"))
        matmul = found["matmul-1024: speed, brim compiled / PyTorch's best"]
        self.assertEqual(matmul.word(), "FAIL, but others used 50 % of the CPUs")
        self.assertTrue(found["resnet18-32-b64: peak memory, brim compiled / PyTorch's least"].passed)
        self.assertTrue(found["tutorial-b4: weights after 200 steps, brim eager"].passed)
        compiled = found["tutorial-b4: weights after 200 steps, brim compiled"]
        self.assertEqual(compiled.word(), "FAIL, but PyTorch is 3.0e-03 from itself on other threads")
        self.assertEqual(len(found), 5)
        self.assertEqual(targets.verdicts({}), [])

    def test_tables(self):
        made = report()
        line = tables.time_line(made["time"][0])
        for word in ("2000.00", "1600.00", "200.00", "100.00", "16.00x", "10.0 %", "channels-last did not run"):
            self.assertIn(word, line)
        self.assertIn("others used 50 %", tables.time_line(made["time"][1]))
        self.assertIn("torch compile -, brim eager 650 MiB", tables.memory_line(made["memory"][0]))
        self.assertIn("eager 2.0e-06 1.0e-06 5.0e-04; compiled 3.0e-03;", tables.equality_line(made["equality"][0]))
        self.assertIn("torch eager 1.500 s", tables.startup_line({"case": "x", "seconds": {"torch eager": 1.5}}))
        self.assertIn("FAIL", tables.verdict_table(made))
        self.assertEqual(tables.verdict_table({}), "")

    def test_chart(self):
        root = xml.etree.ElementTree.fromstring(chart.svg(report()))
        words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for word in ("tutorial-b4", "16.00x  (100.0 µs)", "target 12x", "target 0.6", "500 MiB"):
            self.assertIn(word, words)
        for box in root.iter("{http://www.w3.org/2000/svg}rect"):
            self.assertGreater(float(box.get("width")), 0)
            self.assertLessEqual(float(box.get("x", 0)) + float(box.get("width")), chart.WIDTH)
        self.assertTrue(chart.svg({"torch": "9.9", "threads": 1, "cpu": ""}))

    def test_files(self):
        self.assertEqual(files.file_name("a.json"), "a.json")
        with self.assertRaisesRegex(argparse.ArgumentTypeError, "an empty value"):
            files.file_name("")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.json")
            for text in ("one", "two"):
                files.write_text(path, text)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), text)
            self.assertEqual(os.listdir(folder), ["a.json"])


if __name__ == "__main__":
    unittest.main()
