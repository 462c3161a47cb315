"""Which settings of each peer the comparison runs: finds them, keeps them in a file, says where there are none."""

import collections
import json
import os
import sys

import files
import sweep


def read(path):
    """What `Chosen.add` wrote. Exits where it is something else."""
    try:
        with open(path, encoding="utf-8") as file:
            names = json.load(file)
        if not isinstance(names, dict) or not all(isinstance(each, list) for each in names.values()):
            raise ValueError("it holds no lists of settings")
        return names
    except (OSError, ValueError) as error:
        sys.exit(f"{path} cannot be read: {error}; put it away, and screen again")


class Chosen:
    """The settings that screening chose at each point: {key: [names]} in a file, which more screening adds to."""

    def __init__(self, path, place):
        self.path, self.place, self.names = path, place, read(path) if os.path.exists(path) else {}

    def key(self, library, ranks, mode, operation, size):
        begin = f"+{self.place.begin}" if self.place.begin else ""
        return f"{library}/{ranks}/{mode}/{self.place.pages}{begin}/{operation}/{size}"

    def add(self, names):
        """Replaces what was chosen at points that were screened again, and keeps all else."""
        self.names.update({self.key(*point): list_of for point, list_of in names.items()})
        with files.replacing(self.path) as file:
            json.dump(self.names, file, indent=1)

    def settings(self, library, ranks, mode, operation, size):
        """None where nothing was screened, or with settings that do not exist here: something else may be best then."""
        known = {v.name: v for v in self.place.variants_of(library, ranks)}
        names = self.names.get(self.key(library, ranks, mode, operation, size), [])
        return [known[name] for name in names] if known.keys() >= set(names) else []

    def note(self, results, peers):
        """With which settings the peers ran, in words."""
        points = {(r["library"], r["ranks"], sweep.mode_of(r), r["op"], r["bytes"]) for r in results
                  if r["library"] in peers}
        unscreened = sorted(point for point in points if not self.settings(*point))
        if not points:
            return "No peer was measured."
        if len(unscreened) == len(points):
            return "Peers ran with their defaults: nothing was screened."
        if not unscreened:
            return "Peers ran with the settings that screening chose."
        counts = collections.Counter(f"{library}, {ranks} ranks, {mode}" for library, ranks, mode, *_ in unscreened)
        return ("Peers ran with the settings that screening chose, but with their defaults at "
                f"{len(unscreened)} of {len(points)} points, which were not screened: "
                + "; ".join(f"{times} x {name}" for name, times in counts.items()) + ".")


def screen(libraries, ranks_list, operations, sizes, modes, seconds, place):
    """Runs all settings once, and in the end again those of which others disturbed more than a quarter, and returns the
    best of each library at each point. Settings that fail are none of them where they had measured nothing by then: not
    every system has what each needs; says which. Exits when all failed."""
    results, failed = [], []
    settings = [(variant, ranks, points) for ranks in ranks_list for library in libraries
                for variant in place.variants_of(library, ranks)
                if (points := [p for p in sweep.points_of(operations, sizes, ranks) if variant.covers(*p)])]

    def run(variant, ranks, points, turn=""):
        """What was measured; nothing if something failed, which it would do again."""
        print(f"screening {variant.library} {variant.name}, {ranks} ranks{turn}", flush=True)
        failed_before = len(failed)
        new = sweep.attempt(variant, ranks, points, sweep.steady(modes, seconds), place, failed,
                            sweep.limit_of(points, modes, seconds))
        results.extend(new)
        return new if len(failed) == failed_before else []

    ran = [run(*each) for each in settings]
    sweep.tell_disturbed(results)  # which only all of them together tell
    for each, found in zip(settings, ran):
        if 4 * sum(r["disturbed"] for r in found) > len(found):
            run(*each, ", again")
    left_out = sweep.what_failed(results, failed)
    chosen = best_of_each_place(results)
    if not chosen:
        sys.exit(f"nothing was screened: {left_out}")
    print(f"left out: {left_out}")
    return chosen


def best_of_each_place(results, keep=2):
    """{(library, ranks, mode, operation, bytes): names}: the best `keep` of those that ran with the cores near, and of
    those that ran with them far.

    Each setting runs once or twice, and the hypervisor moves cores meanwhile, which outweighs what settings do: a good
    one that ran far would lose to a poor one that ran near. One that is best wherever cores are is best in the place
    where it ran, so one turn finds it. One that is best in one place only and ran in the other may be missed."""
    sweep.tell_distances(results)
    times = collections.defaultdict(lambda: collections.defaultdict(dict))
    for r in results:
        if r["correct"]:
            ran = times[(r["library"], r["ranks"], sweep.mode_of(r), r["op"], r["bytes"])][r["cores"]]
            ran[r["variant"]] = min(r["median_us"], ran.get(r["variant"], r["median_us"]))
    return {point: list(dict.fromkeys(name for _, ran in sorted(places.items())
                                      for name in sorted(ran, key=ran.get)[:keep]))
            for point, places in times.items()}
