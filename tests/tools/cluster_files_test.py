#!/usr/bin/env python3
"""examples/cluster without a cluster: the image's stages, and that brim takes the words that the Jobs give it.

    cluster_files_test.py BRIM

.ci/full builds the image (image) and runs what the files start (ranks)."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "examples/cluster"


def instructions(text):
    """(name, rest) of a Containerfile, continued lines joined."""
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


class Containerfile(unittest.TestCase):
    steps = instructions((CLUSTER / "Containerfile").read_text())

    def test_stages(self):
        stages = [rest for name, rest in self.steps if name == "FROM"]
        self.assertEqual(stages, ["${BUILD} AS build", "${RUNTIME}"])
        bases = dict(rest.split("=", 1) for name, rest in self.steps if name == "ARG")
        self.assertIn("slim", bases["RUNTIME"])
        last = self.steps[[i for i, (name, _) in enumerate(self.steps) if name == "FROM"][-1]:]
        copies = [rest for name, rest in last if name == "COPY"]
        self.assertEqual(copies, ["--from=build /brim/build/package /packages"])  # neither sources nor compilers
        users = [rest for name, rest in last if name == "USER"]
        self.assertEqual(len(users), 1)
        self.assertRegex(users[0], r"^[1-9]\d*:[1-9]\d*$")
        self.assertIn(["ENTRYPOINT", '["brim"]'], last)

    def test_what_it_runs_is_there(self):
        runs = [part.strip() for name, rest in self.steps if name == "RUN" for part in rest.split("&&")]
        makefile = (ROOT / "Makefile").read_text()
        setup = (ROOT / "tools/setup.sh").read_text()
        for run in runs:
            words = run.split()
            if words[0] == "make":
                self.assertRegex(makefile, rf"(?m)^{words[1]}:")
                for name in re.findall(r"\b([A-Z_]+)=", run):  # what it is given
                    self.assertRegex(makefile, rf"(?m)^{name}\b.*=")
            elif words[0].startswith("tools/"):
                self.assertTrue((ROOT / words[0]).exists(), run)
                self.assertTrue(len(words) == 1 or f"\n  {words[1]})" in setup, run)
            else:
                self.assertIn(words[0], ("apt-get", "rm"), run)
        for run in runs:
            if "install" in run.split():
                self.assertIn("--no-install-recommends", run)

    def test_a_toolkit_gives_a_backend(self):
        # Where images are built there is no GPU, without which CMake leaves it out.
        make = [rest for name, rest in self.steps if name == "RUN" and "make package" in rest]
        self.assertEqual(len(make), 1)
        self.assertRegex(make[0], r'"CUDA=\$\(if command -v nvcc >/dev/null; then echo ON; else echo OFF; fi\)"')
        for asked in ("CUDA=ON", "CUDA=OFF"):
            run = subprocess.run(["make", "-n", "package", asked, "CUDA_ARCHITECTURES=80;90"], cwd=ROOT, capture_output=True, text=True)
            self.assertIn(f"-DBRIM_{asked} ", run.stdout, run.stderr)
            self.assertIn('"-DBRIM_CUDA_ARCHITECTURES=80;90"', run.stdout)

    def test_the_context_is_small(self):
        ignored = (ROOT / ".dockerignore").read_text().split()
        for folder in ("/build/", "/.git/"):
            self.assertIn(folder, ignored)


class Jobs(unittest.TestCase):
    def test_brim_takes_their_words(self):
        text = (CLUSTER / "gpu-job.yaml").read_text()
        commands = [[w.strip().strip('"') for w in words.split(",")] for words in re.findall(r"args: \[(.*)\]", text)]
        self.assertEqual([c[0] for c in commands], ["env", "train"])
        with tempfile.TemporaryDirectory() as folder:
            for command in commands:
                command = [w.replace("/run/brim", folder).replace("cuda:0", "cpu").replace("bf16", "fp32") for w in command]
                command = ["tutorial-cnn" if w == "resnet18-cifar" else w for w in command]
                command += ["--json"] if command[0] == "env" else ["--steps", "2", "--json", f"{folder}/result.json"]
                run = subprocess.run([BRIM, *command], capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, f"{command}: {run.stderr}")
                if command[0] == "env":
                    self.assertTrue(json.loads(run.stdout)["ready"])


class PricePerEpoch(unittest.TestCase):
    def run_table(self, *words):
        script = [sys.executable, ROOT / "bench/price_per_epoch.py", BRIM, "tutorial-cnn", "--samples", "50000", "--batch", "4"]
        return subprocess.run([*script, "--classes", "10", *words], capture_output=True, text=True)

    def test_table(self):
        run = self.run_table("--price", "t4=0.4", "--price", "h100:2=3")
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in run.stdout.splitlines()]
        self.assertEqual([r[0] for r in rows[2:]], ["NVIDIA T4", "2 x NVIDIA H100 SXM"])
        for row in rows[2:]:
            self.assertAlmostEqual(float(row[6]) / float(row[5]), 2, delta=0.05)  # at 40 and at 80 %

    def test_bad_input(self):
        self.assertEqual(self.run_table("--price", "t4").returncode, 2)
        run = self.run_table("--price", "t5=1")
        self.assertEqual(run.returncode, 1)
        self.assertIn("t5", run.stderr)


if __name__ == "__main__":
    BRIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
