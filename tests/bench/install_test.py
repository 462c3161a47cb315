"""What scripts/install-dependencies, demo, test and gpu-check do first."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True

from pretending import ROOT, pretend  # noqa: E402


class Install(unittest.TestCase):
    def install(self, apt_get, group="peers", installed=""):
        """install-dependencies where only these packages are there, in dpkg-query's lines: status, output, what apt-get
        was called with."""
        with tempfile.TemporaryDirectory() as folder:
            calls = os.path.join(folder, "calls")
            for name, text in {"apt-get": f'echo "$*" >>{calls}\n{apt_get}', "dpkg-query": f"echo '{installed}'",
                               "sudo": 'exec "$@"'}.items():
                pretend(os.path.join(folder, name), text)
            with open(calls, "w", encoding="utf-8"):
                pass
            done = subprocess.run([os.path.join(ROOT, "scripts", "install-dependencies"), group], check=False, text=True,
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

    def test_what_is_installed_by_this_or_another_name_is_left_alone(self):
        there = ["busybox-static, busybox", "cpio, ", "libelf1t64, other (= 1), libelf1 (= 0.192-4)"]
        status, output, (_, call) = self.install(
            "exit 0", "lab", "\n".join(["config-files kmod, ", *(f"installed {names}" for names in there)]))
        self.assertEqual(status, 0, output)
        asked = call.split()
        self.assertEqual([name for name in ("busybox-static", "cpio", "libelf1", "kmod", "make") if name in asked],
                         ["kmod", "make"])

    def test_fails_in_words(self):
        status, output, _ = self.install("echo no network; exit 100")
        self.assertEqual(status, 100, output)
        self.assertIn("no network", output)

    def test_a_group_that_does_not_exist_is_refused(self):
        status, output, calls = self.install("exit 0", "perrs")
        self.assertEqual((status, calls), (2, []), output)
        self.assertIn("there is no group perrs", output)


class FirstSteps(unittest.TestCase):
    def gpu_check(self, folder, nvidia_smi, cmake):
        """gpu-check in a checkout of its own, and an environment in which tools only pretend."""
        tools = os.path.join(folder, "tools")
        for name in ("nvcc", "c++", "pkg-config", "ninja"):
            pretend(os.path.join(tools, name), "exit 0")
        pretend(os.path.join(tools, "nvidia-smi"), nvidia_smi)
        pretend(os.path.join(tools, "cmake"), cmake)
        os.mkdir(os.path.join(folder, "scripts"))
        return (shutil.copy(os.path.join(ROOT, "scripts", "gpu-check"), os.path.join(folder, "scripts")),
                {**os.environ, "PATH": tools + ":" + os.environ["PATH"]})

    def test_gpu_check_refuses_what_it_does_not_understand_before_it_does_anything(self):
        for words in (["--seconds"], ["--seconds", "010"], ["--nccl-tests", "/there-is-none"], ["--second", "10"],
                      ["/dev/null/build", "--seconds", "10"]):
            with self.subTest(words):
                done = subprocess.run([os.path.join(ROOT, "scripts", "gpu-check"), *words], capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn("gpu-check: ", done.stderr)

    def test_what_gpu_check_runs_ends_with_it(self):
        """Where CMake never comes back, and only says when it has to end."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name), tempfile.TemporaryDirectory() as folder:
                begun, ended = (os.path.join(folder, name) for name in ("begun", "ended"))
                os.mkfifo(begun)
                script, environment = self.gpu_check(folder, "echo 9.0", f"""case "$*" in *dependencies*) exit 0;; esac
trap ": >{ended}; exit 1" TERM
echo >{begun}
for i in $(seq 300); do sleep 0.1; done""")
                with subprocess.Popen([script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
                                      preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as running:
                    with open(begun, encoding="utf-8") as file:
                        file.read()
                    running.send_signal(number)
                    self.assertEqual(running.wait(), 128 + number)
                deadline = time.monotonic() + 10
                while not os.path.exists(ended) and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.assertTrue(os.path.exists(ended))

    def test_gpu_check_ends_in_time_though_the_driver_never_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            script, environment = self.gpu_check(folder, "exec sleep 300", "exit 0")
            done = subprocess.run([script, "--seconds", "1"], capture_output=True, text=True, env=environment, timeout=60,
                                  check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("gpu-check: there is no GPU", done.stderr)

    def test_the_preset_sets_what_is_the_default_of_gpus(self):
        """Else one kind would stay in the cache, where demo or test has left it."""
        with open(os.path.join(ROOT, "CMakePresets.json"), encoding="utf-8") as file:
            release = json.load(file)["configurePresets"][0]["cacheVariables"]
        with open(os.path.join(ROOT, "cmake", "TuttiCuda.cmake"), encoding="utf-8") as file:
            default = re.search(r"set\(TUTTI_CUDA_ARCHITECTURES ([\d ]+) CACHE", file.read()).group(1)
        self.assertEqual(release["TUTTI_CUDA_ARCHITECTURES"].split(";"), default.split())

    def test_gpu_check_builds_where_its_caller_says(self):
        with tempfile.TemporaryDirectory() as folder:
            script, environment = self.gpu_check(folder, "exit 1", "exit 0")
            here = os.path.join(folder, "here")
            os.mkdir(here)
            done = subprocess.run([script, "my build"], capture_output=True, text=True, env=environment, cwd=here, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertTrue(os.path.isdir(os.path.join(here, "my build", "check")), done.stderr)

    def test_gpu_check_tells_what_was_killed_from_what_took_too_long(self):
        with tempfile.TemporaryDirectory() as folder:
            script, environment = self.gpu_check(folder, "echo 9.0", 'case "$*" in *dependencies*) exit 0;; esac; kill -KILL $$')
            done = subprocess.run([script], capture_output=True, text=True, env=environment, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("FAILED", done.stdout)
            self.assertNotIn("STOPPED", done.stdout)

    def test_demo_and_test_refuse_arguments_before_they_install_anything(self):
        for name in ("demo", "test"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                os.mkdir(os.path.join(folder, "scripts"))
                script = shutil.copy(os.path.join(ROOT, "scripts", name), os.path.join(folder, "scripts"))
                done = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertRegex(done.stderr, f"^usage: scripts/{name}")

    def test_nothing_is_installed_for_a_checkout_that_cannot_be_written(self):
        for name, what in (("demo", "build"), ("test", "build"), ("gpu-check", "build/gpu/check")):
            with self.subTest(name), tempfile.TemporaryDirectory(prefix="a folder ") as folder:
                os.mkdir(os.path.join(folder, "scripts"))
                script = shutil.copy(os.path.join(ROOT, "scripts", name), os.path.join(folder, "scripts"))
                with open(os.path.join(folder, "build"), "w", encoding="utf-8"):
                    pass  # no folder can be made there, by root neither
                done = subprocess.run([script], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, f"(?m)^{name}: .*{what} cannot be written")
                self.assertNotIn("install-dependencies", done.stderr)  # which is not there


if __name__ == "__main__":
    unittest.main()
