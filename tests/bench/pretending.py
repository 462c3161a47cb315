"""What tests of scripts share: programs that only pretend."""

import os

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
