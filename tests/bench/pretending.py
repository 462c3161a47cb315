"""What tests of scripts share: programs that only pretend, and scripts as modules."""

import importlib.machinery
import importlib.util
import os
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A line that a bench program prints.
RESULT = {"ranks": 2, "op": "all_reduce", "bytes": 8, "library": "gloo", "variant": "new", "correct": True,
          "first_us": 2, "next_us": 1, "swept_us": 1.5, "median_us": 1, "rewritten": False, "rtt_ns": None,
          "step_ns": 0.6}


def pretend(path, text):
    """A program of this shell."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text + "\n")
    os.chmod(path, 0o755)


class Pretending(unittest.TestCase):
    """With programs that only pretend to measure."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def read(self, *names):
        with open(self.path(*names), encoding="utf-8") as file:
            return file.read()

    def build(self, library, text):
        """A program of this text for the library."""
        pretend(self.path("bench", "peers", "tutti-bench-" + library), text)


def script(name, root=ROOT):
    """A script as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(root, "scripts", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
