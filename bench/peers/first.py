"""First calls of a size, beside the next ones: medians over processes that did nothing else."""

import collections
import statistics

import report
import sweep


def run(libraries, ranks_list, operations, sizes, repeats, place):
    """All results, and the launches that failed. Each launch is one library with its default settings and one
    operation; libraries take turns."""
    results, failed = [], []
    for ranks in ranks_list:
        for repetition in range(repeats):
            print(f"{ranks} ranks, repetition {repetition + 1} of {repeats}", flush=True)
            for operation in operations:
                for library in libraries:
                    default = place.variants_of(library, ranks)[0]
                    points = sweep.points_of([operation], sorted(sizes), ranks)
                    results += sweep.attempt(default, ranks, points, ["--first"], place, failed)
    return results, failed


def table(results, libraries):
    """One line a number of ranks, operation and size; a cell: first / next / next with swept caches, and by how much
    the first is dearer than each. Wrong results do not count."""
    cells = collections.defaultdict(list)
    for r in results:
        if r["correct"]:
            cells[(r["ranks"], r["op"], r["bytes"], r["library"])].append(r)
    lines = ["| ranks, operation, size | " + " | ".join(report.NAMES[x] for x in libraries) + " |",
             "|---|" + "---|" * len(libraries)]
    for point in sorted({key[:3] for key in cells}):
        ranks, operation, size = point
        line = f"| {ranks}, {operation}, {report.size_name(size)} |"
        for library in libraries:
            runs = cells.get((*point, library))
            line += cell(runs) if runs else " - |"
        lines.append(line)
    return lines


def cell(runs):
    times = [statistics.median(r[k] for r in runs) for k in ("first_us", "next_us", "swept_us")]
    above = [statistics.median(r["first_us"] - r[k] for r in runs) for k in ("next_us", "swept_us")]
    signed = [("-" if us < 0 else "+") + report.number(abs(us)) for us in above]
    return f" {' / '.join(map(report.number, times))}, {' '.join(signed)} |"
