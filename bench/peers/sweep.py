"""Measures many points with many libraries: in which order, and what counts in the end."""

import collections
import statistics
import sys

import launch


def attempt(variant, ranks, points, how, place, failed, limit=300):
    """What was measured; when something failed on the way, says so and adds the launch's name to `failed`."""
    try:
        return launch.measure(variant, ranks, points, how, place, limit)
    except launch.Failed as failure:
        print(f"  failed: {failure}", file=sys.stderr)
        failed.append(f"{variant.library} {variant.name}, {ranks} ranks")
        return failure.results


def what_failed(results, failed):
    """What went wrong, in words."""
    wrong = sum(not r["correct"] for r in results)
    names = "; ".join(f"{times} x {name}" for name, times in collections.Counter(failed).items())
    return f"{wrong} wrong results, {len(failed)} failed launches{': ' + names if names else ''}."


def outcome(results, failed):
    """What went wrong, in words, and the exit status. Exits when nothing was measured."""
    if not results:
        sys.exit("nothing was measured")
    return what_failed(results, failed), 1 if failed or not all(r["correct"] for r in results) else 0


def steady(modes, seconds):
    """The options for calls back to back."""
    return ["--modes", ",".join(modes), "--seconds", str(seconds)]


def limit_of(points, modes, seconds):
    """How long such a launch may take. The programs measure a point for up to four times as long where others disturb it,
    and find out how long its calls are before."""
    return len(modes) * (300 + 6 * seconds * len(points))


def rounded(operation, size, ranks):
    """The bytes that the programs report for a size that was asked for: whole elements, one block a rank."""
    if operation == "barrier":
        return 0
    whole = operation in ("all_reduce", "broadcast", "reduce", "ping_pong", "shift")
    unit = 4 if whole else 4 * ranks
    return -(-size // unit) * unit


def points_of(operations, sizes, ranks):
    """(operation, bytes) pairs. Sizes that are the same to the programs are one point: all of a barrier are."""
    return list(dict.fromkeys((op, rounded(op, size, ranks)) for op in operations for size in sizes))


def mode_of(result):
    return "rewritten" if result["rewritten"] else "unchanged"


def plan(library, ranks, mode, points, place, chosen):
    """[(variant, points)]: what to run of one library. Points that were never screened run with the default."""
    default = place.variants_of(library, ranks)[0]
    jobs = collections.defaultdict(list)
    for operation, size in points:
        for variant in chosen.settings(library, ranks, mode, operation, size) or [default]:
            jobs[variant].append((operation, size))
    return list(jobs.items())


def run(libraries, ranks_list, operations, sizes, modes, repeats, seconds, place, chosen):
    """All results of all repetitions, and the launches that failed. Libraries take turns, and each repetition starts
    with another one."""
    results, failed = [], []
    for ranks in ranks_list:
        launches = [(mode, *job) for mode in modes for library in libraries
                    for job in plan(library, ranks, mode, points_of(operations, sizes, ranks), place, chosen)]
        for repetition in range(repeats):
            print(f"{ranks} ranks, repetition {repetition + 1} of {repeats}: {len(launches)} launches", flush=True)
            first = repetition * len(launches) // repeats
            for mode, variant, points in launches[first:] + launches[:first]:
                results += attempt(variant, ranks, points, steady([mode], seconds), place, failed,
                                   limit_of(points, [mode], seconds))
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


def told(distances):
    """What `tell_distances` found, in words."""
    if not distances:
        return "How far apart cores were was not measured."
    return ("A cache line went from one core to the other and back in "
            + ", ".join(f"{ns:.0f} ns{' (' + place[1:] + ')' if place else ''}" for place, ns in distances.items()) + ".")


def tell_disturbed(results):
    """Marks results, `disturbed`, while which some core was slower than it can be: others used its other hardware
    thread. Returns how many they are. How fast cores can be depends on how many of them work: by their frequency, and
    where two ranks are on both threads of one."""
    least = {}
    for r in results:
        least[r["ranks"]] = min(r["step_ns"], least.get(r["ranks"], r["step_ns"]))
    for r in results:
        r["disturbed"] = r["step_ns"] > 1.15 * least[r["ranks"]]  # as core_speed.hpp has it
    return sum(r["disturbed"] for r in results)


def how_disturbed(results):
    """What `tell_disturbed` found, in words."""
    number = tell_disturbed(results)
    if number == 0:
        return "Nobody else slowed a core."
    return (f"{number} of {len(results)} results were measured while others slowed a core; they count where there is "
            "nothing else, and tables mark them with ~.")


def undisturbed(runs):
    """Those of `runs` that were not disturbed; all, if all were."""
    return [r for r in runs if not r["disturbed"]] or runs


def best(results):
    """{(mode, ranks, op, bytes): {library: {"us", "min_us", "variant", "runs", "disturbed"}}}: medians over
    repetitions, of the variant whose median is smallest. Wrong results do not count, nor what was disturbed where its
    setting has others."""
    tell_disturbed(results)
    times = collections.defaultdict(list)
    for r in results:
        if r["correct"]:
            mode = mode_of(r) + r.get("cores", "")
            times[(mode, r["ranks"], r["op"], r["bytes"], r["library"], r["variant"])].append(r)
    points = collections.defaultdict(dict)
    for (*point, library, variant), all_runs in times.items():
        runs = undisturbed(all_runs)
        found = {"us": statistics.median(r["median_us"] for r in runs), "min_us": min(r["min_us"] for r in runs),
                 "variant": variant, "runs": len(runs), "disturbed": runs[0]["disturbed"]}
        known = points[tuple(point)].get(library)
        if known is None or found["us"] < known["us"]:
            points[tuple(point)][library] = found
    return dict(points)
