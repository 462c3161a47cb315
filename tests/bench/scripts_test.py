"""What scripts/bench-peers makes of programs that measure, fail or are not there, and of packages that are not; and what
scripts/bench-rdma does with what was measured."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "bench", "peers"))

import launch  # noqa: E402
import report  # noqa: E402
import variants  # noqa: E402

RESULT = {"ranks": 2, "op": "all_reduce", "bytes": 8, "library": "gloo", "variant": "new", "correct": True,
          "first_us": 2, "next_us": 1, "median_us": 1}
MEASURED = f"""case "$*" in *"--rank 0 "*) echo '{json.dumps(RESULT)}';; esac"""


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def build(self, library, text):
        """A program of this text for the library."""
        program = self.path("bench", "peers", "tutti-bench-" + library)
        os.makedirs(os.path.dirname(program), exist_ok=True)
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text + "\n")
        os.chmod(program, 0o755)

    def run_script(self, *options):
        command = [os.path.join(ROOT, "scripts", "bench-peers"), "--build", self.folder, "--out", self.path("out"),
                   "--ranks", "2", "--ops", "all_reduce", "--sizes", "8", "--repeats", "1", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def test_measures_nothing_without_programs(self):
        status, output = self.run_script("--first")
        self.assertEqual(status, 2, output)
        self.assertIn("tutti-bench-tutti was not built", output)

    def test_fails_when_every_launch_did(self):
        self.build("gloo", "exit 1")
        status, output = self.run_script("--first")
        self.assertEqual(status, 1, output)
        self.assertIn("nothing was measured", output)
        self.assertFalse(os.path.exists(self.path("out", "first.md")))

    def test_names_a_launch_that_failed(self):
        self.build("gloo", MEASURED)
        status, output = self.run_script("--first")
        self.assertEqual(status, 0, output)
        self.assertIn("0 wrong results, 0 failed launches.", output)
        self.build("tutti", "exit 1")
        status, output = self.run_script("--first")
        self.assertEqual(status, 1, output)
        self.assertIn("2 failed launches: 1 x tutti default, 2 ranks; 1 x tutti-registered", output)

    def test_screening_leaves_out_settings_that_fail(self):
        self.build("gloo", f'case "$*" in *"--variant new "*) {MEASURED};; *) exit 1;; esac')
        status, output = self.run_script("--screen")
        self.assertEqual(status, 0, output)
        with open(self.path("out", "screen.json"), encoding="utf-8") as file:
            chosen = file.read()
        self.assertIn('"new"', chosen)
        self.build("gloo", "exit 1")
        status, output = self.run_script("--screen")
        self.assertEqual(status, 1, output)
        with open(self.path("out", "screen.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), chosen)


class Install(unittest.TestCase):
    def install(self, apt_get):
        """bench-peers --install where no package is there: status, output, what apt-get was called with."""
        with tempfile.TemporaryDirectory() as folder:
            calls = os.path.join(folder, "calls")
            for name, text in {"apt-get": f'echo "$*" >>{calls}\n{apt_get}', "dpkg-query": "exit 1",
                               "sudo": 'exec "$@"'}.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\n" + text + "\n")
                os.chmod(file.name, 0o755)
            done = subprocess.run([os.path.join(ROOT, "scripts", "bench-peers"), "--install"], check=False, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]})
            with open(calls, encoding="utf-8") as file:
                return done.returncode, done.stdout, file.read().splitlines()

    def test_lists_of_packages_are_fetched_first(self):
        status, output, calls = self.install("exit 0")
        self.assertEqual(status, 0, output)
        self.assertEqual(len(calls), 2, calls)
        self.assertIn("update", calls[0])
        self.assertIn("libgloo-dev", calls[1])

    def test_fails_in_words(self):
        status, output, _ = self.install("echo no network; exit 100")
        self.assertEqual(status, 100, output)
        self.assertIn("no network", output)
        self.assertNotIn("Traceback", output)


class Rdma(unittest.TestCase):
    """scripts/bench-rdma, with a lab that only pretends to measure."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scripts = os.path.join(folder.name, "scripts")
        os.mkdir(self.scripts)
        shutil.copy(os.path.join(ROOT, "scripts", "bench-rdma"), self.scripts)

    def run_script(self, point, **environment):
        lab = os.path.join(self.scripts, "rdma-lab")
        with open(lab, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\nwhile [[ $1 != --results ]]; do shift; done\n"
                       f"echo '{json.dumps(point)}' | tee \"$2/figures\"\n")
        os.chmod(lab, 0o755)
        done = subprocess.run([os.path.join(self.scripts, "bench-rdma"), self.scripts], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={**os.environ, "TMPDIR": self.scripts, **environment})
        return done.returncode, done.stdout

    def test_keeps_what_it_cannot_make_a_table_of(self):
        status, output = self.run_script({**RESULT, "correct": False})
        self.assertEqual(status, 1, output)
        kept = output.split("what was measured: ")[1].strip()
        with open(kept, encoding="utf-8") as file:
            self.assertIs(json.load(file)["correct"], False)

    def test_leaves_nothing_behind_a_table(self):
        status, output = self.run_script({**RESULT, "library": "tutti-verbs"})
        self.assertEqual(status, 0, output)
        self.assertIn("| all_reduce | 8 | 1 |", output)
        self.assertEqual(sorted(os.listdir(self.scripts)), ["bench-rdma", "rdma-lab"])

    def test_misses_python_before_it_measures(self):
        tools = os.path.join(self.scripts, "tools")
        os.mkdir(tools)
        for tool in ("bash", "dirname", "realpath", "mktemp", "rm", "cat", "tee"):
            os.symlink(shutil.which(tool), os.path.join(tools, tool))
        status, output = self.run_script(RESULT, PATH=tools)
        self.assertEqual((status, output), (1, "python3 is missing: scripts/install-dependencies peers\n"))


class Figures(unittest.TestCase):
    def test_bus_factors_are_those_of_nccl_tests(self):
        self.assertEqual(report.bus_factor("all_reduce", 4), 1.5)
        self.assertEqual(report.bus_factor("all_gather", 4), 0.75)
        self.assertEqual(report.bus_factor("shift", 4), 1)
        self.assertEqual(report.bus_factor("ping_pong", 2), 2)


class Launches(unittest.TestCase):
    @staticmethod
    def open_mpi(ranks, **where):
        place = launch.Place(build="build", cores=[0, 1], **where)
        return launch.commands(variants.Variant("ompi", "default"), ranks, [], place, "")[0]

    def test_open_mpi_has_a_slot_for_each_core(self):
        self.assertIn("localhost:2", self.open_mpi(2))
        self.assertNotIn("--oversubscribe", self.open_mpi(2))
        self.assertIn("localhost:2", self.open_mpi(4))
        self.assertIn("--oversubscribe", self.open_mpi(4))
        self.assertEqual(self.open_mpi(2, mpirun=("--host", "a:1,b:1")).count("--host"), 1)


if __name__ == "__main__":
    unittest.main()
