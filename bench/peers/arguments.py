"""Types of options that the scripts share."""

import argparse
import re


def size_of(text):
    match = re.fullmatch(r"(\d+)([KM]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 8, 4K or 64M")
    return int(match[1]) << {"": 0, "K": 10, "M": 20}[match[2]]


def list_of(convert, allowed=None):
    def parse(text):
        values = [convert(word) for word in text.split(",")]
        unknown = [v for v in values if allowed and v not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(allowed)}")
        return values
    return parse


def number(convert, least, most):
    """An int or a float within bounds: neither NaN nor infinite."""
    def parse(text):
        value = convert(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not within {least} to {most}")
        return value
    parse.__name__ = convert.__name__  # of which argparse speaks where it fails
    return parse


RANKS = number(int, 1, 1024)
REPEATS = number(int, 1, 10_000)
SECONDS = number(float, 1e-6, 3600)  # of a point
