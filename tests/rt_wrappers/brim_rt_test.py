#!/usr/bin/env python3
"""python/brim_rt.py over fake_runtime.cpp: brim_rt_test.py LIBRARY. With NumPy where it is there, and always without."""

import array
import ctypes
import gc
import importlib.util
import os
import sys
import tempfile
import threading
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FAKE = sys.argv[1]
GOOD = b"fake engine 0"


def load(with_numpy):
    """The module, as it is where NumPy is there or is not."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "numpy"}
    if not with_numpy:
        sys.modules["numpy"] = None
    try:
        spec = importlib.util.spec_from_file_location("brim_rt", os.path.join(ROOT, "python", "brim_rt.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        if not with_numpy:
            del sys.modules["numpy"]
            sys.modules.update(kept)
    return module


def floats(*values):
    return array.array("f", values)


class WithoutNumpy(unittest.TestCase):
    numpy = None

    @classmethod
    def setUpClass(cls):
        cls.rt = load(cls.numpy is not None)
        cls.library = cls.rt.Library(FAKE)
        cls.open_handles = ctypes.CDLL(FAKE).fake_open_handles

    def tearDown(self):
        self.assertEqual(self.open_handles(), 0, "a model or session was not closed")

    def test_runs(self):
        with self.rt.Model(GOOD, self.library) as model, model.session() as session:
            [y] = session.run(floats(1, 2, 3))
            self.assertEqual(y.tolist(), [[2, 4, 6]])
            self.assertEqual(session.run({"x": floats(0, 0, 1)})[0].tolist(), [[0, 0, 2]])
            two_axes = memoryview(floats(1, 0, 0)).cast("B").cast("f", (1, 3))
            self.assertEqual(session.run(two_axes)[0].tolist(), [[2, 0, 0]])
            frozen = memoryview(floats(1, 0, 0)).toreadonly()
            self.assertEqual(session.run(frozen)[0].tolist(), [[2, 0, 0]])

    def test_describes(self):
        with self.rt.Model(GOOD, self.library) as model:
            self.assertEqual(model.batches, [1, 4])
            self.assertEqual(model.labels, ["cat", "dog", "한국어"])
            self.assertEqual(model.metadata("model"), "doubler")
            self.assertIsNone(model.metadata("mean"))
            with model.session(batch=4, threads=2, isa="avx2") as session:
                self.assertEqual(repr(session.inputs), "[x: float32 (4, 3)]")
                self.assertEqual(repr(session.outputs), "[doubled: float32 (4, 3)]")
                self.assertEqual((session.isa, session.memory, session.steps), ("avx2", 4096, ["double, of layer", "", "end"]))
                self.assertEqual(session.verify(), 1e-7)

    def test_binds_buffers(self):
        with self.rt.Model(GOOD, self.library) as model, model.session() as session:
            x, y = floats(1, 2, 3), floats(0, 0, 0)
            call = session.bind([x], [y])
            call()
            x[0] = 5
            call()
            self.assertEqual(y.tolist(), [10, 4, 6])
            session.close()
            with self.assertRaisesRegex(self.rt.InvalidArgument, "session is closed"):
                call()

    def test_refuses_other_buffers(self):
        with self.rt.Model(GOOD, self.library) as model, model.session() as session:
            for wrong, message in (
                ((floats(1, 2),), r"x is float32 \(1, 3\), and was given float32 \(2,\); convert or reshape it"),
                ((array.array("q", [1, 2, 3]),), r"given int64 \(3,\)"),
                (("abc",), "x: str is no buffer|given <U3"),
                ((), r"there are 1 inputs \(x: float32 \(1, 3\)\), and 0 were given"),
                (({"y": floats(1, 2, 3)},), "the inputs are x, and were given y"),
            ):
                with self.assertRaisesRegex(self.rt.InvalidArgument, message):
                    session.run(*wrong)
            with self.assertRaisesRegex(ValueError, "read-only"):
                session.bind([floats(1, 2, 3)], [memoryview(floats(0, 0, 0)).toreadonly()])

    def test_reports_each_code(self):
        kinds = {kind.code: kind for kind in self.rt.Error.__subclasses__()}
        self.assertEqual(sorted(kinds), list(range(1, 10)))
        for code in range(1, 9):
            with self.assertRaises(kinds[code]) as caught:
                self.rt.Model(b"fake engine %d" % code, self.library)
            self.assertEqual((type(caught.exception), str(caught.exception)), (kinds[code], "as it was asked to"))
        with self.assertRaisesRegex(OSError, "/nowhere cannot be opened"):
            self.rt.Model("/nowhere", self.library)
        with self.assertRaises(self.rt.Damaged):
            self.rt.Model(b"something else", self.library)
        with self.rt.Model(GOOD, self.library) as model:
            for options, kind in (({"batch": 3}, ValueError), ({"isa": "neon"}, self.rt.Unsupported)):
                with self.assertRaises(kind):
                    model.session(**options)
        with self.rt.Model(b"fake engine 9", self.library) as model, model.session() as session:
            with self.assertRaisesRegex(self.rt.NotEqual, "off by 0.5"):
                session.verify()

    def test_opens_files(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(GOOD)
            file.flush()
            with self.rt.Model(file.name, self.library) as model, model.session() as session:
                self.assertEqual(session.run(floats(1, 1, 1))[0].tolist(), [[2, 2, 2]])

    def test_cancels(self):
        with self.rt.Model(GOOD, self.library) as model, model.session() as session:
            thread = threading.Thread(target=session.cancel)
            thread.start()
            thread.join()
            with self.assertRaises(self.rt.Cancelled):
                session.run(floats(1, 2, 3))
            self.assertEqual(session.run(floats(1, 2, 3))[0].tolist(), [[2, 4, 6]])

    def test_closes_in_any_order(self):
        model = self.rt.Model(GOOD, self.library)
        session = model.session()
        model.close()
        for call in (model.session, lambda: session.run(floats(1, 2, 3)), session.cancel):
            with self.assertRaisesRegex(self.rt.InvalidArgument, "is closed"):
                call()
        session.close()
        model.close()
        self.rt.Model(GOOD, self.library).session()  # both are collected

    def test_ends_in_the_collector(self):
        class Owner:
            def __init__(self, model):
                self.session, self.model, self.itself = model.session(), model, self

        owner = Owner(self.rt.Model(GOOD, self.library))
        del owner
        gc.collect()  # which may end the model first; tearDown counts what is open

    def test_closed_sessions_stay_closed(self):
        model = self.rt.Model(GOOD, self.library)
        first = model.session()
        first.close()
        second = model.session()  # perhaps at the same place in memory
        with self.assertRaisesRegex(self.rt.InvalidArgument, "is closed"):
            first.cancel()
        first.close()
        second.cancel()
        model.close()

    def test_names_the_library(self):
        with self.assertRaisesRegex(self.rt.FileError, "/nowhere.so was not found.*BRIM_RT_LIBRARY"):
            self.rt.Library("/nowhere.so")
        with self.assertRaisesRegex(self.rt.FileError, "brim_rt_abi"):
            self.rt.Library(ctypes.util.find_library("c"))
        os.environ["BRIM_RT_LIBRARY"] = FAKE
        self.assertEqual(self.rt.library().path, FAKE)


try:
    import numpy

    class WithNumpy(WithoutNumpy):
        numpy = numpy

        def test_takes_arrays(self):
            with self.rt.Model(GOOD, self.library) as model, model.session(batch=4) as session:
                x = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
                [y] = session.run(x)
                self.assertEqual((y.dtype, y.shape), (numpy.float32, (4, 3)))
                numpy.testing.assert_array_equal(y, 2 * x)
                numpy.testing.assert_array_equal(session.run(numpy.asfortranarray(x))[0], 2 * x)
                x.flags.writeable = False
                numpy.testing.assert_array_equal(session.run(x)[0], 2 * x)
                with self.assertRaisesRegex(ValueError, r"given float64 \(4, 3\)"):
                    session.run(x.astype(float))
                with self.assertRaisesRegex(ValueError, "not contiguous"):
                    session.bind([x], [numpy.zeros((3, 4), numpy.float32).T])

except ImportError:
    pass

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
