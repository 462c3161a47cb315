"""Draws time and bus bandwidth over size, one line a library."""

import os

import matplotlib
import report

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402  (after the backend is chosen)

COLOURS = {"tutti": "tab:red", "tutti-registered": "tab:orange", "ompi": "tab:blue", "mpich": "tab:green",
           "gloo": "tab:purple"}


def draw(path, mode, ranks, operation, rows, libraries):
    figure, (time, bandwidth) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    for library in libraries:
        line = [(size, found[library]["us"]) for size, found in rows if library in found]
        if not line:
            continue
        sizes, us = zip(*line)
        style = {"marker": "o", "markersize": 3, "label": report.NAMES[library], "color": COLOURS[library]}
        time.plot(sizes, us, **style)
        bandwidth.plot(sizes, [report.bus_gb_per_s(operation, ranks, s, t) for s, t in line], **style)
    for axes, label in ((time, "time (us)"), (bandwidth, "bus bandwidth (GB/s)")):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks([size for size, _ in rows], [report.size_name(size) for size, _ in rows], rotation=40)
        axes.minorticks_off()
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    time.legend()
    figure.suptitle(f"{operation}, {ranks} ranks, inputs {mode}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def write(folder, points, libraries):
    """One picture for each operation, number of ranks and mode. A barrier has no size to draw it over."""
    for mode, ranks, operation in dict.fromkeys(point[:3] for point in points if point[2] != "barrier"):
        path = os.path.join(folder, f"{operation}-{ranks}-{mode}.png")
        draw(path, mode, ranks, operation, report.rows_of(points, mode, ranks, operation), libraries)
