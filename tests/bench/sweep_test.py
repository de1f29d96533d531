#!/usr/bin/env python3
"""What bench/sweep_torch.py plans and makes of its measurements. Needs no PyTorch."""

import argparse
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

from compare.sweep import report  # noqa: E402
from compare.sweep.plan import plan  # noqa: E402

OPS = [
    {"op": "exp", "family": "unary", "layouts": ["dense", "strided"], "dtypes": ["f32", "bf16", "f16"]},
    {"op": "matmul", "family": "product", "layouts": ["square"], "dtypes": ["f32", "bf16"]},
    {"op": "clone", "family": "copy", "layouts": ["dense", "strided"], "dtypes": ["f32", "u8"]},
]


def options(**given):
    return argparse.Namespace(**{"ops": [], "layouts": [], "dtypes": [], "sizes": [10], "threads": [1], **given})


def planned(**given):
    return [(c["op"], c["layout"], c["dtype"]) for c in plan(OPS, options(**given))]


def result(ratio, elements=10_000, family="unary"):
    case = {"op": "exp", "family": family, "layout": "dense", "dtype": "f32", "elements": elements, "threads": 1}
    record = {"us": [10.0] * 3, "cpu_us": [10.0] * 3, "torch_us": [10 * ratio] * 3, "torch_cpu_us": [10 * ratio] * 3}
    return report.finish(case, record)


class Plan(unittest.TestCase):
    def test_other_dtypes_come_in_the_usual_layout_and_halves_where_they_are_used(self):
        self.assertEqual(
            planned(),
            [
                ("exp", "dense", "f32"),
                ("exp", "dense", "bf16"),
                ("exp", "dense", "f16"),
                ("exp", "strided", "f32"),
                ("matmul", "square", "f32"),
                ("clone", "dense", "f32"),
                ("clone", "dense", "u8"),
                ("clone", "strided", "f32"),
            ],
        )

    def test_what_is_named_is_run_everywhere(self):
        self.assertEqual(
            planned(dtypes=["bf16"]),
            [("exp", "dense", "bf16"), ("exp", "strided", "bf16"), ("matmul", "square", "bf16")],
        )
        self.assertEqual(planned(ops=["clone"], layouts=["strided"]), [("clone", "strided", "f32")])
        self.assertEqual(planned(ops=["matmul"], layouts=["strided"]), [])

    def test_sizes_and_threads(self):
        cases = plan(OPS, options(ops=["matmul"], sizes=[10, 100], threads=[1, 2]))
        self.assertEqual([(c["threads"], c["elements"]) for c in cases], [(1, 10), (1, 100), (2, 10), (2, 100)])


class Report(unittest.TestCase):
    def test_ratios_are_taken_inside_each_round(self):
        record = {"us": [1, 2, 4], "cpu_us": [1, 0, 2], "torch_us": [2, 2, 2], "torch_cpu_us": [2, 2, 2]}
        got = report.finish({"op": "exp"}, record)
        self.assertEqual((got["ratio"], got["least"], got["largest"], got["rounds"]), (1, 0.5, 2, 3))
        self.assertEqual((got["us"], got["torch_us"], got["cpu_ratio"]), (2, 2, 1.5))

    def test_the_worst_comes_first(self):
        lines = report.below_table([result(0.9), result(0.5), result(1.5)], 1.0).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn(" 0.50 ", lines[1])
        self.assertIn(" 0.90 ", lines[2])
        self.assertEqual(report.below_table([result(1.5)], 1.0), "nothing is below 1")

    def test_no_time_by_the_clock_of_the_cpu(self):
        record = {"us": [2.0], "cpu_us": [0.0], "torch_us": [1.0], "torch_cpu_us": [0.0]}
        case = {"op": "exp", "layout": "dense", "dtype": "f32", "elements": 1, "threads": 1}
        self.assertTrue(report.below_table([report.finish(case, record)], 1.0).endswith("-"))

    def test_families(self):
        parts = report.summaries([result(0.5), result(2), result(0.5, 100), result(4, family="norm")])
        self.assertEqual(list(parts), ["all", "unary", "norm"])
        self.assertEqual(parts["all"]["cases"], 4)
        self.assertEqual(parts["all"]["median"], 1.25)
        self.assertAlmostEqual(parts["all"]["geometric_mean"], 2**0.25)
        self.assertEqual(parts["unary"]["below_1"], 2)
        self.assertEqual(parts["unary"]["misses"], 1, "small tensors have no bar")
        self.assertEqual(len(report.summary_table(parts).splitlines()), 4)


if __name__ == "__main__":
    unittest.main()
