"""Files of results."""

import contextlib
import os


@contextlib.contextmanager
def replacing(path):
    """What to write to. It takes the place of `path` as a whole, or not at all: what it holds took minutes, or hours."""
    new = path + ".new"
    with open(new, "w", encoding="utf-8") as file:
        yield file
    os.replace(new, path)
