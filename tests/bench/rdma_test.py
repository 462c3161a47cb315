"""What scripts/bench-rdma and bench/rdma/windows do with what was measured, and with what failed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from pretending import RESULT, ROOT, pretend  # noqa: E402


class Rdma(unittest.TestCase):
    """scripts/bench-rdma, with a lab that only pretends to measure."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scripts = os.path.join(folder.name, "scripts")
        os.mkdir(self.scripts)
        shutil.copy(os.path.join(ROOT, "scripts", "bench-rdma"), self.scripts)

    def run_script(self, point, status=0, **environment):
        """With a lab that ends with this status after it measured the point."""
        self.program("rdma-lab", "while [ \"$1\" != --results ]; do shift; done\n"
                     f"echo '{json.dumps(point)}' | tee \"$2/figures\"\nexit {status}")
        done = subprocess.run([os.path.join(self.scripts, "bench-rdma"), self.scripts], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={**os.environ, "TMPDIR": self.scripts, **environment})
        return done.returncode, done.stdout

    def program(self, path, text):
        pretend(os.path.join(self.scripts, path), text)

    def kept(self, output):
        with open(output.split("what was measured: ")[1].strip(), encoding="utf-8") as file:
            return json.load(file)

    def test_keeps_what_was_measured_before_something_failed(self):
        status, output = self.run_script(RESULT, status=3)
        self.assertEqual((status, self.kept(output)), (1, RESULT), output)

    def test_the_lab_ends_with_it(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name):
                begun, ended = (os.path.join(self.scripts, f"{name}-{number.name}") for name in ("begun", "ended"))
                os.mkfifo(begun)
                self.program("rdma-lab", f"trap 'touch {ended}; exit 1' TERM\necho >{begun}\n"
                             "for i in $(seq 300); do sleep 0.1; done")
                with subprocess.Popen([os.path.join(self.scripts, "bench-rdma"), self.scripts],
                                      env={**os.environ, "TMPDIR": self.scripts},
                                      preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as running:
                    with open(begun, encoding="utf-8") as file:
                        file.read()
                    running.send_signal(number)
                    self.assertEqual(running.wait(), 1)
                self.assertTrue(os.path.exists(ended))
                self.assertEqual([name for name in os.listdir(self.scripts) if name.startswith("tmp.")], [])

    def test_says_which_rank_failed(self):
        """Inside the guest: the first of the ways, verbs, ends it."""
        self.program("ip", "exit 0")
        self.program("tools/tutti-tune", "exit 0")
        self.program("bench/peers/tutti-bench-tutti", "[ $RANK != 2 ] || exit 7")
        done = subprocess.run([os.path.join(self.scripts, "bench-rdma"), "--inside", self.scripts, "1"], check=False,
                              env={**os.environ, "PATH": self.scripts + ":" + os.environ["PATH"],
                                   "LAB_RESULTS": self.scripts})
        self.assertEqual(done.returncode, 1)
        with open(os.path.join(self.scripts, "complaints"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "tutti-verbs: rank 2 ended with status 7\n")

    def test_keeps_what_it_cannot_make_a_table_of(self):
        status, output = self.run_script({**RESULT, "correct": False})
        self.assertEqual(status, 1, output)
        self.assertIs(self.kept(output)["correct"], False)

    def test_leaves_nothing_behind_a_table(self):
        status, output = self.run_script({**RESULT, "library": "tutti-verbs"})
        self.assertEqual(status, 0, output)
        self.assertIn("| all_reduce | 8 | 1 |", output)
        self.assertEqual(sorted(os.listdir(self.scripts)), ["bench-rdma", "rdma-lab"])

    def test_refuses_what_it_does_not_understand_before_it_measures(self):
        self.program("rdma-lab", "echo the lab began")
        for words in (["--help"], ["/there-is-none"], [self.scripts, "0"], [self.scripts, "many"], [self.scripts, "1", "2"]):
            with self.subTest(words):
                done = subprocess.run([os.path.join(self.scripts, "bench-rdma"), *words], capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn("usage: scripts/bench-rdma", done.stderr)

    def test_misses_python_before_it_measures(self):
        tools = os.path.join(self.scripts, "tools")
        os.mkdir(tools)
        for tool in ("bash", "dirname", "realpath", "mktemp", "rm", "cat", "tee"):
            os.symlink(shutil.which(tool), os.path.join(tools, tool))
        status, output = self.run_script(RESULT, PATH=tools)
        self.assertEqual((status, output), (1, "python3 is missing: scripts/install-dependencies peers\n"))


class Windows(unittest.TestCase):
    """bench/rdma/windows, on two processors, with programs that only pretend to measure: they keep the ports that they
    are given, and take a microsecond more each time."""

    OURS = """[ $RANK = 0 ] || exit 0
echo $MASTER_PORT >>FOLDER/ports
echo 8 - - $(wc -l <FOLDER/ports)"""
    THEIRS = """case "$*" in *127.0.0.1) ;; *) exit 0;; esac
while [ $1 != -p ]; do shift; done
echo $2 >>FOLDER/ports
echo 8 1000 - - $(wc -l <FOLDER/ports)"""

    def run_script(self, rounds, ours=OURS, theirs=THEIRS):
        """Its status, its output, and the ports."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"nproc": "echo 2", "sleep": "", "ib_write_lat": theirs,
                               "tools/tutti-window-perf": ours}.items():
                pretend(os.path.join(folder, name), text.replace("FOLDER", folder))
            done = subprocess.run([os.path.join(ROOT, "bench", "rdma", "windows"), folder, str(rounds)], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, "PATH": folder + ":" + os.environ["PATH"], "LAB_NODES": "2"})
            with open(os.path.join(folder, "ports"), encoding="utf-8") as file:
                return done.returncode, done.stdout, file.read().split()

    def test_the_median_of_an_even_number_is_between_two(self):
        for rounds, row in ((2, "| 8 | 2 | 3 | 0.67 |"), (3, "| 8 | 3 | 4 | 0.75 |")):
            status, output, _ = self.run_script(rounds)
            self.assertEqual((status, output.splitlines()[-1]), (0, row), output)

    def test_no_port_is_used_twice(self):
        _, output, ports = self.run_script(3)
        taken = [int(port) + i for port in ports for i in range(2)]  # rank 0 listens at the next one, too
        self.assertEqual((len(ports), len(set(taken))), (6, 12), output)

    def test_refuses_what_it_does_not_understand_before_it_measures(self):
        for words in ([], ["/there-is-none"], [ROOT, "0"], [ROOT, "x"]):
            with self.subTest(words):
                done = subprocess.run([os.path.join(ROOT, "bench", "rdma", "windows"), *words], capture_output=True,
                                      text=True, check=False, env={**os.environ, "LAB_NODES": "2"})
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn("usage: bench/rdma/windows", done.stderr)

    def test_what_failed_is_named(self):
        for rank in ("0", "1"):  # after all was measured
            status, output, _ = self.run_script(1, ours=f"{self.OURS.replace('exit 0', ':')}\n[ $RANK != {rank} ]")
            self.assertEqual(status, 1, output)
            self.assertIn("no figure of ours for 8 bytes", output)
        status, output, _ = self.run_script(1, theirs=self.THEIRS + "\nexit 1")
        self.assertEqual(status, 1, output)
        self.assertIn("no figure of theirs for 8 bytes", output)


if __name__ == "__main__":
    unittest.main()
