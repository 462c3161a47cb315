"""Measures many points with many libraries: which settings to use, in which order, and what counts in the end."""

import collections
import statistics
import sys

import launch


def attempt(variant, ranks, points, how, place, failed):
    """What was measured; when something failed on the way, says so and adds the launch's name to `failed`."""
    try:
        return launch.measure(variant, ranks, points, how, place)
    except launch.Failed as failure:
        print(f"  failed: {failure}", file=sys.stderr)
        failed.append(f"{variant.library} {variant.name}, {ranks} ranks")
        return failure.results


def outcome(results, failed):
    """What went wrong, in words, and the exit status. Exits when nothing was measured."""
    if not results:
        sys.exit("nothing was measured")
    wrong = sum(not r["correct"] for r in results)
    names = "; ".join(f"{times} x {name}" for name, times in collections.Counter(failed).items())
    text = f"{wrong} wrong results, {len(failed)} failed launches{': ' + names if names else ''}."
    return text, 1 if wrong or failed else 0


def steady(modes, seconds):
    """The options for calls back to back."""
    return ["--modes", ",".join(modes), "--seconds", str(seconds)]


def key_of(library, ranks, operation, size):
    return f"{library}/{ranks}/{operation}/{size}"


def screen(libraries, ranks_list, operations, sizes, seconds, place, keep=2):
    """Runs all settings once and returns the best of each library at each point: {key: [names]}. Settings that fail
    are none of them: not every system has what each needs. Exits when all failed."""
    chosen = {}
    for ranks in ranks_list:
        for library in libraries:
            times = collections.defaultdict(list)
            for variant in place.variants_of(library, ranks):
                points = [(op, size) for op in operations for size in sizes if variant.covers(op, size)]
                if not points:
                    continue
                print(f"screening {library} {variant.name}, {ranks} ranks", flush=True)
                asked = {(op, rounded(op, size, ranks)): size for op, size in points}
                for result in attempt(variant, ranks, points, steady(["unchanged"], seconds), place, []):
                    if result["correct"]:
                        size = asked[(result["op"], result["bytes"])]
                        times[(result["op"], size)].append((result["median_us"], variant.name))
            for (operation, size), list_of in times.items():
                chosen[key_of(library, ranks, operation, size)] = [name for _, name in sorted(list_of)[:keep]]
    if not chosen:
        sys.exit("nothing was screened")
    return chosen


def rounded(operation, size, ranks):
    """The bytes that the programs report for a size that was asked for: whole elements, one block a rank."""
    if operation == "barrier":
        return 0
    whole = operation in ("all_reduce", "broadcast", "reduce", "ping_pong", "shift")
    unit = 4 if whole else 4 * ranks
    return -(-size // unit) * unit


def plan(library, ranks, operations, sizes, place, chosen):
    """[(variant, points)]: what to run of one library. Points that were never screened run with the default."""
    points = collections.defaultdict(list)
    variants = {v.name: v for v in place.variants_of(library, ranks)}
    default = next(iter(variants))
    for operation in operations:
        for size in sizes:
            for name in chosen.get(key_of(library, ranks, operation, size), [default]):
                points[name].append((operation, size))
    return [(variants[name], list_of) for name, list_of in points.items()]


def run(libraries, ranks_list, operations, sizes, modes, repeats, seconds, place, chosen):
    """All results of all repetitions, and the launches that failed. Libraries take turns, and each repetition starts
    with another one."""
    results, failed = [], []
    for ranks in ranks_list:
        launches = [(mode, *job) for mode in modes for library in libraries
                    for job in plan(library, ranks, operations, sizes, place, chosen)]
        for repetition in range(repeats):
            print(f"{ranks} ranks, repetition {repetition + 1} of {repeats}: {len(launches)} launches", flush=True)
            first = repetition * len(launches) // repeats
            for mode, variant, points in launches[first:] + launches[:first]:
                results += attempt(variant, ranks, points, steady([mode], seconds), place, failed)
    return results, failed


def tell_distances(results):
    """Names where the cores were, `cores`, if the hypervisor moved them on the way: the same calls then take a
    multiple of the time, so only results of one place may be compared. Ranks that are bound to no core
    (Gloo's, in some settings) count for both places."""
    trips = [r["rtt_ns"] for r in results if r["rtt_ns"] is not None]
    between = statistics.geometric_mean((min(trips), max(trips))) if trips and max(trips) > 2 * min(trips) else None
    for r in list(results):
        r["cores"] = ""
        if between is None:
            continue
        if r["rtt_ns"] is None:
            results.append({**r, "cores": "-near"})
        r["cores"] = "-near" if r["rtt_ns"] is not None and r["rtt_ns"] < between else "-far"
    return {place: statistics.median(r["rtt_ns"] for r in results if r["cores"] == place and r["rtt_ns"] is not None)
            for place in sorted({r["cores"] for r in results if r["rtt_ns"] is not None})}


def best(results):
    """{(mode, ranks, op, bytes): {library: {"us", "min_us", "variant", "runs"}}}: medians over repetitions, of the
    variant whose median is smallest. Wrong results do not count."""
    times = collections.defaultdict(list)
    for r in results:
        if r["correct"]:
            mode = ("rewritten" if r["rewritten"] else "unchanged") + r.get("cores", "")
            times[(mode, r["ranks"], r["op"], r["bytes"], r["library"], r["variant"])].append(r)
    points = collections.defaultdict(dict)
    for (*point, library, variant), runs in times.items():
        found = {"us": statistics.median(r["median_us"] for r in runs), "min_us": min(r["min_us"] for r in runs),
                 "variant": variant, "runs": len(runs)}
        known = points[tuple(point)].get(library)
        if known is None or found["us"] < known["us"]:
            points[tuple(point)][library] = found
    return dict(points)
