"""Writes the table: ours, each peer, the best peer, how many times faster ours is."""

import statistics

import variants

NAMES = {"tutti": "tutti", "tutti-registered": "tutti, registered", "ompi": "Open MPI", "mpich": "MPICH",
         "gloo": "Gloo"}
OURS = "tutti"


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def bus_factor(operation, ranks):
    """nccl-tests: what algorithm bandwidth is multiplied by to be comparable with the links' bandwidth. A ping_pong is
    a message there and one back."""
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "broadcast": 1, "reduce": 1, "shift": 1, "ping_pong": 2}
    return factors.get(operation, (ranks - 1) / ranks)


def bus_gb_per_s(operation, ranks, size, us):
    return size / us / 1000 * bus_factor(operation, ranks)


def number(us):
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def cell(found, peer):
    setting = f" ({found['variant']})" if peer else ""
    return number(found["us"]) + ("~" if found["disturbed"] else "") + setting


def ratio(libraries, peers):
    """Best peer's time over ours, None when one of them is missing."""
    known = [libraries[p]["us"] for p in peers if p in libraries]
    return min(known) / libraries[OURS]["us"] if known and OURS in libraries else None


def geometric_mean(values):
    return f"{statistics.geometric_mean(values):.2f}" if values else "-"


def rows_of(points, mode, ranks, operation):
    return sorted((size, libraries) for (m, n, op, size), libraries in points.items()
                  if (m, n, op) == (mode, ranks, operation))


def table(rows, libraries, peers):
    lines = ["| size | " + " | ".join(NAMES[x] for x in libraries) + " | best peer | best peer / tutti |",
             "|---|" + "---|" * (len(libraries) + 2)]
    for size, found in rows:
        cells = [cell(found[library], library in peers) if library in found else "-" for library in libraries]
        known = [p for p in peers if p in found]
        first = NAMES[min(known, key=lambda p: found[p]["us"])] if known else "-"
        faster = ratio(found, peers)
        lines.append(f"| {size_name(size)} | " + " | ".join(cells) +
                     f" | {first} | {f'{faster:.2f}' if faster else '-'} |")
    ratios = [r for _, found in rows if (r := ratio(found, peers))]
    lines.append(f"| geometric mean |{' |' * len(libraries)} | {geometric_mean(ratios)} |")
    return lines


def summary(points, peers):
    """Geometric means over sizes: a row an operation, a column a mode and number of ranks."""
    columns = sorted({(mode, ranks) for mode, ranks, _, _ in points}, key=lambda c: (not c[0].startswith("unchanged"), c[1], c[0]))
    operations = [op for op in variants.OPERATIONS if any(point[2] == op for point in points)]
    lines = ["| best peer / tutti | " + " | ".join(f"{n} ranks, {mode}" for mode, n in columns) + " |",
             "|---|" + "---|" * len(columns)]
    for op in operations:
        means = [geometric_mean([r for _, found in rows_of(points, mode, n, op) if (r := ratio(found, peers))])
                 for mode, n in columns]
        lines.append(f"| {op} | " + " | ".join(means) + " |")
    return lines


def write(path, title, notes, points, libraries, peers):
    lines = [f"# {title}", "", *notes, "",
             "Times are microseconds: medians over repetitions of each run's median. In brackets: the",
             "peer's setting that was best there. Ratios above 1: tutti is faster.", "", *summary(points, peers)]
    groups = dict.fromkeys((mode, ranks, op) for mode, ranks, op, _ in
                           sorted(points, key=lambda p: (not p[0].startswith("unchanged"), p[1], p[0],
                                                       variants.OPERATIONS.index(p[2]))))
    for mode, ranks, op in groups:
        lines += ["", f"## {op}, {ranks} ranks, inputs {mode}", "",
                  *table(rows_of(points, mode, ranks, op), libraries, peers)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
