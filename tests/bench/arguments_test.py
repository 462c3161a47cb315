"""What scripts/bench-peers and bench-tcp make of values, and of a file, that they cannot measure by."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from pretending import ROOT, pretend  # noqa: E402

REFUSED = {
    "bench-peers": ("--ranks 0", "--ranks 2,-1", "--repeats 0", "--seconds nan", "--seconds inf", "--seconds 0"),
    "bench-tcp": ("--streams 0", "--repeats 0", "--seconds nan", "--largest 4"),
}


class Arguments(unittest.TestCase):
    def test_values_that_are_none_are_refused_in_words(self):
        for script, lines in REFUSED.items():
            for line in lines:
                with self.subTest(f"{script} {line}"), tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run([os.path.join(ROOT, "scripts", script), "--build", folder, *line.split()],
                                          cwd=folder, capture_output=True, text=True, check=False)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertRegex(done.stderr, f"argument {line.split()[0]}: .* is not within ")

    def test_a_file_of_settings_that_is_damaged_is_refused_in_words(self):
        for text in ('{"gloo/2/unchanged/unadvised/all_reduce/8": ["ne', "\377", "[]"):
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                pretend(os.path.join(folder, "bench", "peers", "tutti-bench-gloo"), "exit 0")
                with open(os.path.join(folder, "screen.json"), "w", encoding="latin-1") as file:
                    file.write(text)
                done = subprocess.run([os.path.join(ROOT, "scripts", "bench-peers"), "--build", folder, "--out", folder],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, "(?m)^.*/screen.json cannot be read: ")
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
