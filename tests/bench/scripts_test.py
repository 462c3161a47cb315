"""What scripts/bench-peers and bench-tcp make of programs that measure, fail or are not there."""

import argparse
import contextlib
import ctypes
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True

from pretending import RESULT, ROOT, Pretending, pretend, script  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "bench", "peers"))

import first  # noqa: E402
import launch  # noqa: E402
import report  # noqa: E402
import screening  # noqa: E402
import sweep  # noqa: E402
import variants  # noqa: E402


bench_tcp = script("bench-tcp")


def prints(**changed):
    """Shell that prints, on rank 0, a result that differs from RESULT in that."""
    return f"""case "$*" in *"--rank 0 "*) echo '{json.dumps({**RESULT, **changed})}';; esac"""


MEASURED = prints()


class Scripts(Pretending):
    def chosen(self):
        return json.loads(self.read("out", "screen.json"))

    def command(self, *options):
        return [os.path.join(ROOT, "scripts", "bench-peers"), "--build", self.folder, "--out", self.path("out"),
                "--ranks", "2", "--ops", "all_reduce", "--sizes", "8", "--repeats", "1", *options]

    def run_script(self, *options):
        done = subprocess.run(self.command(*options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        return done.returncode, done.stdout

    def test_measures_nothing_without_programs(self):
        status, output = self.run_script("--first")
        self.assertEqual(status, 2, output)
        self.assertIn("tutti-bench-tutti was not built", output)

    def test_fails_when_every_launch_did(self):
        self.build("gloo", "exit 1")
        status, output = self.run_script("--first")
        self.assertEqual(status, 1, output)
        self.assertIn("nothing was measured", output)
        self.assertFalse(os.path.exists(self.path("out", "first.md")))

    def test_what_is_no_text_ends_nothing_but_its_launch(self):
        self.build("gloo", f"printf '\\377 odd\\n'\n{MEASURED}\nprintf '\\377 odd' >&2\nexit 1")
        status, output = self.run_script("--first")
        self.assertEqual(status, 1, output)
        self.assertIn(" odd\n", output)
        self.assertTrue(os.path.exists(self.path("out", "first.md")), output)

    def test_what_it_started_ends_with_it(self):
        os.mkfifo(self.path("begun"))
        os.mkdir(self.path("tmp"))
        self.build("gloo", f"""case "$*" in *"--rank 1 "*) exec sleep 30;; esac
trap 'touch {self.path("ended")}; exit 1' TERM
echo >{self.path("begun")}
for i in $(seq 300); do sleep 0.1; done""")
        script = subprocess.Popen(self.command("--first"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "TMPDIR": self.path("tmp")})
        with open(self.path("begun"), encoding="utf-8") as begun:
            begun.read()
        script.terminate()
        self.assertEqual(script.wait(), 128 + signal.SIGTERM)
        self.assertTrue(os.path.exists(self.path("ended")))
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_names_a_launch_that_failed(self):
        self.build("gloo", MEASURED)
        status, output = self.run_script("--first")
        self.assertEqual(status, 0, output)
        self.assertIn("0 wrong results, 0 failed launches.", output)
        self.build("tutti", "exit 1")
        status, output = self.run_script("--first")
        self.assertEqual(status, 1, output)
        self.assertIn("2 failed launches: 1 x tutti default, 2 ranks; 1 x tutti-registered", output)

    def test_one_rank_that_fails_is_a_launch_that_failed(self):
        self.build("gloo", f'{MEASURED}\ncase "$*" in *"--rank 1 "*) kill -9 $$;; esac')
        status, output = self.run_script("--first")
        self.assertEqual(status, 1, output)
        self.assertIn("failed: gloo new, 2 ranks: rank 1: ended by signal 9\n", output)
        self.assertIn("1 failed launches: 1 x gloo new, 2 ranks.", output)

    def test_screening_leaves_out_settings_that_fail(self):
        self.build("gloo", f'case "$*" in *"--variant new "*) {MEASURED};; *) exit 1;; esac')
        status, output = self.run_script("--screen")
        self.assertEqual(status, 0, output)
        self.assertIn("left out: 0 wrong results, 7 failed launches: 1 x gloo new-pinned, 2 ranks; ", output)
        chosen = self.chosen()
        self.assertEqual(chosen, {"gloo/2/unchanged/unadvised/all_reduce/8": ["new"]})
        self.build("gloo", "exit 1")
        status, output = self.run_script("--screen")
        self.assertEqual(status, 1, output)
        self.assertEqual(self.chosen(), chosen)

    def test_screening_counts_what_a_setting_measured_before_it_failed(self):
        self.build("gloo", f'case "$*" in *"--variant new "*) {MEASURED};; esac; exit 1')
        status, output = self.run_script("--screen", "--sizes", "8,64")
        self.assertEqual(status, 0, output)
        self.assertIn("1 x gloo new, 2 ranks; ", output)
        self.assertEqual(self.chosen(), {"gloo/2/unchanged/unadvised/all_reduce/8": ["new"]})

    def test_screening_adds_to_what_was_screened(self):
        self.build("gloo", MEASURED)
        self.run_script("--screen")
        self.build("gloo", prints(op="broadcast"))
        self.run_script("--screen", "--ops", "broadcast")
        self.assertEqual(list(self.chosen()),
                         [f"gloo/2/unchanged/unadvised/{op}/8" for op in ("all_reduce", "broadcast")])
        self.build("gloo", prints(variant="new-pinned"))
        self.run_script("--screen")
        self.assertEqual(list(self.chosen().values()), [["new-pinned"], ["new"]])

    def test_screens_all_modes_in_one_launch_and_for_pages(self):
        both = prints() + "\n" + prints(rewritten=True)
        self.build("gloo", f'case "$*" in *"--pages huge"*"--modes unchanged,rewritten "*) {both};; *) exit 1;; esac')
        status, output = self.run_script("--screen", "--pages", "huge")
        self.assertEqual(status, 0, output)
        self.assertEqual(list(self.chosen()),
                         [f"gloo/2/{mode}/huge/all_reduce/8" for mode in ("unchanged", "rewritten")])

    def test_over_tcp_there_are_only_libraries_and_operations_that_can_be(self):
        for option, value in (("--libraries", "tutti,mpich"), ("--ops", "all_reduce,all_sum")):
            command = [os.path.join(ROOT, "scripts", "bench-tcp"), option, value]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(f"'{value.split(',')[1]}' is not one of", done.stderr)


def ran(variant, us, rtt_ns, **changed):
    return {**RESULT, "variant": variant, "median_us": us, "min_us": us, "rtt_ns": rtt_ns, **changed}


class Screening(unittest.TestCase):
    point = ("gloo", 2, "unchanged", "all_reduce", 8)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "screen.json")
        self.place = launch.Place(build="build", cores=[0, 1])

    def chosen(self, names):
        """What a later run reads after screening chose these."""
        screening.Chosen(self.path, self.place).add(names)
        return screening.Chosen(self.path, self.place)

    def best(self, results):
        return screening.best_of_each_place(results)[self.point]

    def test_keeps_the_best_of_each_place(self):
        results = [ran("good", 40, 400), ran("fair", 50, 410), ran("poor", 60, 400),
                   ran("worse", 20, 100), ran("bad", 30, 110), ran("worst", 35, 100)]
        self.assertEqual(self.best(results), ["good", "fair", "worse", "bad"])

    def test_keeps_the_best_where_cores_stayed(self):
        results = [ran("slow", 3, 110), ran("fast", 1, 100), ran("fair", 2, 120), ran("wrong", 0, 100, correct=False)]
        self.assertEqual(self.best(results), ["fast", "fair"])

    def test_ranks_that_are_bound_to_no_core_are_compared_in_both_places_and_named_once(self):
        results = [ran("far", 5, 400), ran("near", 2, 100), ran("unbound", 1, None)]
        self.assertEqual(self.best(results), ["unbound", "far", "near"])

    def test_tells_places_apart_over_all_that_was_screened(self):
        # At this point all ran far; another one shows that there is a near.
        results = [ran("a", 5, 400), ran("b", 2, 410), ran("a", 1, 100, op="broadcast")]
        self.assertEqual(self.best(results), ["b", "a"])
        self.assertEqual({r["cores"] for r in results if r["op"] == "all_reduce"}, {"-far"})

    def test_what_ran_twice_is_one_setting_and_its_better_run_counts(self):
        twice = [ran("twice", 9, 100, step_ns=1.1), ran("twice", 1, 100)]
        others = [ran("once", 2, 100), ran("worst", 3, 100)]
        for runs in twice, twice[::-1]:
            self.assertEqual(self.best([*runs, *others]), ["twice", "once"])

    def screened(self, measure):
        """Which settings were run, in turn, with this for launch.measure."""
        with unittest.mock.patch.object(launch, "measure", measure), contextlib.redirect_stderr(io.StringIO()), \
                contextlib.redirect_stdout(io.StringIO()) as said:
            screening.screen(["gloo"], [2], ["all_reduce"], [8], ["unchanged"], 0.1, types.SimpleNamespace(
                variants_of=lambda library, ranks: [variants.Variant(library, name) for name in ("a", "b", "c")]))
        return [line.removeprefix("screening gloo ") for line in said.getvalue().splitlines() if "screening" in line]

    def test_runs_again_what_others_disturbed_also_before_that_could_be_told(self):
        steps = [1.1, 0.6, 0.6, 1.1]
        self.assertEqual(self.screened(lambda *_: [ran("new", 1, 100, step_ns=steps.pop(0))]),
                         ["a, 2 ranks", "b, 2 ranks", "c, 2 ranks", "a, 2 ranks, again"])

    def test_a_launch_may_take_as_long_as_its_points(self):
        with unittest.mock.patch.object(launch, "measure", return_value=[]) as measure, \
                contextlib.redirect_stdout(io.StringIO()):
            sweep.run(["gloo"], [2], ["all_reduce"], [8, 64], ["unchanged"], 1, 1000, self.place, self.chosen({}))
        self.assertGreater(measure.call_args.args[-1], 2 * 5 * 1000)

    def test_does_not_run_again_what_failed(self):
        def measure(variant, *_):
            if variant.name == "a":
                raise launch.Failed("a", [ran("a", 1, 100, step_ns=1.1)])
            return [ran(variant.name, 1, 100)]
        self.assertEqual(self.screened(measure), ["a, 2 ranks", "b, 2 ranks", "c, 2 ranks"])

    def test_each_mode_has_settings_of_its_own(self):
        chosen = screening.best_of_each_place([ran("a", 1, 100), ran("b", 1, 100, rewritten=True)])
        self.assertEqual(chosen, {self.point: ["a"], ("gloo", 2, "rewritten", "all_reduce", 8): ["b"]})

    def names_of(self, chosen, mode="unchanged", ranks=2):
        jobs = sweep.plan("gloo", ranks, mode, [("all_reduce", 8)], self.place, chosen)
        return [variant.name for variant, points in jobs]

    def test_what_was_screened_stays_where_more_cannot_be_written(self):
        chosen = self.chosen({self.point: ["bcube-busy"]})
        with unittest.mock.patch.object(json, "dump", side_effect=KeyboardInterrupt), \
                self.assertRaises(KeyboardInterrupt):
            chosen.add({self.point: ["new-pinned"]})
        self.assertEqual(self.names_of(screening.Chosen(self.path, self.place)), ["bcube-busy"])

    def test_runs_what_was_chosen_and_else_the_default(self):
        chosen = self.chosen({self.point: ["bcube-busy", "new-pinned"]})
        self.assertEqual(self.names_of(chosen), ["bcube-busy", "new-pinned"])
        self.assertEqual(self.names_of(chosen, mode="rewritten"), ["new"])
        self.assertEqual(self.names_of(chosen, ranks=4), ["new"])
        self.place.begin = 16
        self.assertEqual(self.names_of(chosen), ["new"])
        self.place.begin, self.place.pages = 0, "huge"
        self.assertEqual(self.names_of(chosen), ["new"])

    def test_a_setting_that_does_not_exist_was_not_screened(self):
        chosen = self.chosen({self.point: ["bcube-busy", "of-old"]})
        self.assertEqual(self.names_of(chosen), ["new"])
        self.assertIn("nothing was screened", chosen.note([ran("new", 1, 100)], ["gloo"]))

    def test_says_how_many_points_ran_unscreened(self):
        chosen = self.chosen({self.point: ["new"]})
        ours = ran("default", 1, 100, library="tutti", op="reduce")
        measured = [ours, ran("new", 1, 100), ran("new", 1, 100)]
        self.assertEqual(chosen.note(measured, ["gloo"]), "Peers ran with the settings that screening chose.")
        measured += [ran("new", 1, 100, bytes=64, rewritten=True)] * 2 + [ran("new", 1, 100, op="reduce")]
        self.assertEqual(chosen.note(measured, ["gloo"]),
                         "Peers ran with the settings that screening chose, but with their defaults at 2 of 3 points, "
                         "which were not screened: 1 x gloo, 2 ranks, rewritten; 1 x gloo, 2 ranks, unchanged.")
        self.assertEqual(chosen.note(measured[-1:], ["gloo"]),
                         "Peers ran with their defaults: nothing was screened.")
        self.assertEqual(chosen.note([ours], []), "No peer was measured.")

    def test_how_far_apart_cores_were_is_told_where_it_was_measured(self):
        self.assertEqual(sweep.told(sweep.tell_distances([ran("a", 1, None)])),
                         "How far apart cores were was not measured.")
        self.assertEqual(sweep.told(sweep.tell_distances([ran("a", 1, 100)])),
                         "A cache line went from one core to the other and back in 100 ns.")
        self.assertEqual(sweep.told(sweep.tell_distances([ran("a", 1, 100), ran("a", 1, 400)])),
                         "A cache line went from one core to the other and back in 400 ns (far), 100 ns (near).")

    def test_sizes_that_are_the_same_to_programs_are_one_point(self):
        self.assertEqual(sweep.points_of(["barrier", "all_gather"], [8, 16, 64], 4),
                         [("barrier", 0), ("all_gather", 16), ("all_gather", 64)])


class Settings(unittest.TestCase):
    @staticmethod
    def covering(operation, ranks):
        return {v.name: v for v in variants.variants_of("ompi", ranks) if v.covers(operation, 8)}

    def test_a_barrier_has_all_algorithms_but_the_one_for_two_ranks(self):
        for ranks, there in ((2, "123456"), (4, "12346")):
            numbers = [name[-1] for name in self.covering("barrier", ranks) if name.startswith("algorithm-")]
            self.assertEqual("".join(numbers), there)
        four = self.covering("barrier", 4)["algorithm-6"].launcher
        self.assertEqual(four[four.index("coll_tuned_barrier_algorithm") + 1], "6")

    def test_open_mpi_has_collectives_in_shared_memory_but_not_over_tcp(self):
        self.assertIn("sm", self.covering("broadcast", 4))
        self.assertNotIn("sm", self.covering("all_gather", 4))
        self.assertNotIn("sm", [v.name for v in variants.over_tcp("ompi", 2)])

    def test_names_of_settings_are_distinct(self):
        for library in variants.LIBRARIES:
            for ranks in (2, 4):
                names = [v.name for v in variants.variants_of(library, ranks)]
                self.assertEqual(len(names), len(set(names)), library)

    def test_older_algorithms_of_gloo_go_to_one_mebibyte_however_it_is_rounded(self):
        for ranks in (2, 3):
            (_, size), = sweep.points_of(["all_gather"], [1 << 20], ranks)
            covering = [v for v in variants.variants_of("gloo", ranks) if v.covers("all_gather", size)]
            self.assertIn("halving_doubling-busy", [v.name for v in covering])


class Figures(unittest.TestCase):
    def found(self, results):
        return sweep.best(results)[("unchanged", 2, "all_reduce", 8)]["gloo"]

    def test_disturbed_results_count_where_a_setting_has_no_others(self):
        disturbed, alone = ran("a", 5, 100, step_ns=0.8), [ran("a", us, 100) for us in (3, 1, 2)]
        found = self.found([disturbed, *alone])
        self.assertEqual((found["us"], found["runs"], found["disturbed"]), (2, 3, False))
        self.assertEqual(report.cell(found, True), "2.00 (a)")
        found = self.found([disturbed, *(ran("b", 9, 100) for _ in alone)])  # slowed, and faster for all that
        self.assertEqual((found["variant"], found["us"], found["disturbed"]), ("a", 5, True))
        self.assertEqual(report.cell(found, False), "5.00~")

    def test_more_ranks_may_be_slower_undisturbed(self):
        results = [ran("a", 1, 100, step_ns=0.6), *(ran("a", 1, 100, ranks=8, step_ns=step) for step in (0.8, 1.2))]
        self.assertEqual(sweep.tell_disturbed(results), 1)
        self.assertEqual([r["disturbed"] for r in results], [False, False, True])

    def test_says_how_many_results_others_disturbed(self):
        said = sweep.how_disturbed([ran("a", 1, 100, step_ns=step) for step in (0.6, 0.68, 0.7, 1.2)])
        self.assertTrue(said.startswith("2 of 4 results were measured while others slowed a core"), said)
        self.assertEqual(sweep.how_disturbed([ran("a", 1, 100)]), "Nobody else slowed a core.")

    def test_bus_factors_are_those_of_nccl_tests(self):
        self.assertEqual(report.bus_factor("all_reduce", 4), 1.5)
        self.assertEqual(report.bus_factor("all_gather", 4), 0.75)
        self.assertEqual(report.bus_factor("shift", 4), 1)
        self.assertEqual(report.bus_factor("ping_pong", 2), 2)

    def test_a_wrong_result_is_no_first_call(self):
        lines = first.table([RESULT, {**RESULT, "first_us": 100, "next_us": 0, "correct": False}], ["gloo"])
        self.assertEqual(lines[2:], ["| 2, all_reduce, 8 B | 2.00 / 1.00 / 1.50, +1.00 +0.50 |"])

    def test_over_tcp_what_is_sent_one_way_is_held_against_the_rate_one_way(self):
        operations = ("all_reduce", "shift", *bench_tcp.ONE_WAY)
        points = {("unchanged", 2, op, 1000): {"tutti": {"us": 1}} for op in operations}
        lines = bench_tcp.share_of_iperf(points, operations, ["tutti"], one_way=5, both_ways=2)
        shares = {line.split(",")[0][2:]: line.split("| ")[2] for line in lines if ", 1000 B" in line}
        self.assertEqual(shares, {"all_reduce": "1.00 (50%) |", "shift": "1.00 (50%) |", "broadcast": "1.00 (20%) |",
                                  "reduce": "1.00 (20%) |", "gather": "0.50 (10%) |", "scatter": "0.50 (10%) |",
                                  "ping_pong": "2.00 (40%) |"})


class TwoHosts(Pretending):
    def test_says_why_iperf3_failed(self):
        for client, why in (('echo \'{"error": "no route"}\'; exit 1', "no route"),
                            ("echo 'no option --bidir\nUsage' >&2; exit 1", "no option --bidir"),
                            ("exit 3", "exit status 3, and no rates"), ("echo '{\"end\": {}}'", "exit status 0, and no rates")):
            pretend(self.path("iperf3"), f'case "$*" in "-s "*) echo listening;; *) {client};; esac')
            with unittest.mock.patch.dict(os.environ, PATH=self.folder), self.assertRaises(SystemExit) as ended, \
                    unittest.mock.patch.object(bench_tcp.hosts, "inside", return_value=[]):
                bench_tcp.hosts.iperf_gb_per_s(["one", "two"], 1, True)
            self.assertEqual(ended.exception.code, f"iperf3 failed: {why}")

    def compare(self):
        """What gloo's program measures and prints: status and output."""
        options = argparse.Namespace(libraries=["gloo"], ops=["all_reduce"], largest=8, repeats=1, seconds=0.1, streams=1,
                                     screen=False, out=self.folder)
        where = launch.Place(build=self.path("bench", "peers"), cores=[0, 1])
        with unittest.mock.patch.object(bench_tcp.hosts, "iperf_gb_per_s", return_value=1.0), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            return bench_tcp.compare(options, where, ["one", "two"]), output.getvalue()

    def test_says_how_far_apart_cores_were(self):
        """In the header and with each result; both places in one table."""
        for trips, told in (((100, 400), "400 ns (far), 100 ns (near). Tables do not tell these apart."),
                            ((100, 110), "back in 105 ns. 0 wrong results"), ((None, None), "was not measured. 0 wrong")):
            self.build("gloo", "\n".join(prints(min_us=1, rtt_ns=trip) for trip in trips))
            status, output = self.compare()
            self.assertEqual(status, 0)
            table = self.read("table.md")
            self.assertIn(told, table)
            self.assertIn(told, output)
            self.assertEqual(table.count("## all_reduce, 2 ranks, inputs unchanged\n"), 1, table)
            self.assertEqual([r["rtt_ns"] for r in json.loads(self.read("results.json"))["results"]], list(trips))

    def test_results_stay_where_others_cannot_be_written(self):
        self.build("gloo", prints(min_us=1))
        self.compare()
        before = self.read("results.json")
        with unittest.mock.patch.object(json, "dump", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            self.compare()
        self.assertEqual(self.read("results.json"), before)


class Namespaces(unittest.TestCase):
    def test_go_also_when_a_signal_comes_meanwhile(self):
        hosts, removed = bench_tcp.hosts, []

        def ip(*arguments):
            if arguments[1] == "pids":
                os.kill(os.getpid(), signal.SIGTERM)
            if arguments[1] == "del":
                removed.append(arguments[2])
            return " ".join(names) if arguments[1] == "list" else ""

        for number in (signal.SIGTERM, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        launch.leave_on_signals()
        with unittest.mock.patch.object(hosts, "ip", ip), self.assertRaises(SystemExit), hosts.two_hosts() as names:
            pass
        self.assertEqual(sorted(removed), names)


class Launches(unittest.TestCase):
    @staticmethod
    def open_mpi(ranks, **where):
        place = launch.Place(build="build", cores=[0, 1], **where)
        return launch.commands(variants.Variant("ompi", "default"), ranks, [], place, "")[0]

    def test_open_mpi_has_a_slot_for_each_core(self):
        self.assertIn("localhost:2", self.open_mpi(2))
        self.assertNotIn("--oversubscribe", self.open_mpi(2))
        self.assertIn("localhost:2", self.open_mpi(4))
        self.assertIn("--oversubscribe", self.open_mpi(4))
        self.assertEqual(self.open_mpi(2, mpirun=("--host", "a:1,b:1")).count("--host"), 1)

    def test_the_shim_of_mpich_is_found_in_a_folder_with_blanks(self):
        ctypes.CDLL("libm.so.6")
        with open("/proc/self/maps", encoding="utf-8") as maps:
            library, = {line.split()[-1] for line in maps if "/libm.so" in line}
        with tempfile.TemporaryDirectory(prefix="a folder ") as folder:
            shim = shutil.copy(library, os.path.join(folder, "libtutti-yield-shim.so"))
            place = launch.Place(build=folder, cores=[0, 1])
            for ranks, there in ((2, False), (4, True)):
                command, = launch.commands(variants.Variant("mpich", "default"), ranks, [], place, "")
                environment = command[command.index("env"):command.index(launch.program_of("mpich", place))]
                ran = subprocess.run([*environment, "cat", "/proc/self/maps"], capture_output=True, text=True, check=True)
                self.assertEqual(shim in ran.stdout, there, ran.stderr)

    def test_a_launcher_that_is_not_there_is_a_launch_that_failed(self):
        with tempfile.TemporaryDirectory() as empty, unittest.mock.patch.dict(os.environ, {"PATH": empty}), \
                self.assertRaisesRegex(launch.Failed, "mpirun.openmpi"):
            launch.measure(variants.Variant("ompi", "default"), 2, [("all_reduce", 8)], [], launch.Place(empty, [0, 1]), 1)

    def test_who_is_not_done_in_time_is_told(self):
        with subprocess.Popen(["sleep", "60"]) as process:
            self.assertEqual(launch.finish([process], 0), "not done within 0 s")
            launch.end([process])

    def test_others_are_not_waited_for_long_whenever_one_fails(self):
        """It fails between two looks at it."""
        fails, waits = unittest.mock.Mock(returncode=None), unittest.mock.Mock(returncode=None)
        looks = iter((None, 1))

        def look():
            fails.returncode = next(looks, 1)
            return fails.returncode

        fails.poll, waits.poll.return_value = look, None
        fails.wait.side_effect = waits.wait.side_effect = subprocess.TimeoutExpired("", 0)
        with unittest.mock.patch.object(launch.time, "monotonic", side_effect=itertools.count()) as clock:
            self.assertEqual(launch.finish([fails, waits], 1000), "rank 0: exit status 1")
        self.assertLess(clock.call_count, 20)

    def test_what_is_being_started_ends_with_the_script(self):
        def told_to_end_meanwhile(*arguments, **options):
            process = popen(*arguments, **options)
            os.kill(os.getpid(), signal.SIGTERM)
            return process

        popen, processes = subprocess.Popen, []
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        launch.leave_on_signals()
        with unittest.mock.patch.object(subprocess, "Popen", told_to_end_meanwhile):
            with self.assertRaises(SystemExit):
                launch.start(processes, ["sleep", "60"])
        launch.end(processes)
        self.assertEqual([process.returncode for process in processes], [-signal.SIGTERM])


class OverTcp(unittest.TestCase):
    def test_open_mpi_finds_its_remote_shell_in_a_folder_with_blanks(self):
        with tempfile.TemporaryDirectory(prefix="a folder ") as folder:
            for name in ("bench", "scripts"):
                os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
            with unittest.mock.patch.object(sys, "path", sys.path[:]), unittest.mock.patch.dict(os.environ):
                mpirun = script("bench-tcp", folder).place(argparse.Namespace(build="build", streams=1), ["one", "two"]).mpirun
                agent = mpirun[mpirun.index("plm_rsh_agent") + 1]
                self.assertEqual(agent.split(), [agent])
                self.assertEqual(shutil.which(agent), os.path.join(folder, "bench", "tcp", "enter"))


if __name__ == "__main__":
    unittest.main()
