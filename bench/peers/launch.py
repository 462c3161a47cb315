"""Starts one of the programs on some ranks and returns what it measured."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import typing

import variants


class Failed(Exception):
    """A program did not finish, or not well; `results` holds what it had measured by then."""

    def __init__(self, message, results):
        super().__init__(message)
        self.results = results


@dataclasses.dataclass
class Place:
    """Where ranks run, how they reach each other, and which settings make sense there."""
    build: str                # folder with the programs
    cores: list
    pages: str = "unadvised"                         # what buffers consist of: small, huge, unadvised
    begin: int = 0                                   # bytes behind a page's begin where they begin
    interface: str = "lo"
    address: str = "127.0.0.1"                       # rank 0's
    environment: tuple = ()                          # of tutti's ranks, (name, value) pairs
    mpirun: tuple = ()                               # more arguments of Open MPI's mpirun
    prefix: typing.Callable = lambda rank: []        # put before the command of a rank; before mpirun that of rank 0
    variants_of: typing.Callable = variants.variants_of  # (library, ranks) -> all settings, the default first


# Rank 0 listens at MASTER_PORT + 1, so that one must be free, and below the ports that Linux gives to outgoing
# connections: one of those may be taken again before rank 0 listens.
FREE_PORT = """
import random, socket
while True:
    port = random.randrange(20000, 32767)
    try:
        socket.socket().bind(("", port + 1))
    except OSError:
        continue
    break
print(port)
"""


def free_port(prefix):
    return subprocess.run([*prefix, "python3", "-c", FREE_PORT], check=True, capture_output=True, text=True).stdout.strip()


def program_of(library, place):
    return os.path.join(place.build, "tutti-bench-" + library.split("-")[0])


def built(asked, libraries, place):
    """The libraries asked for; nobody asked for any: those of `libraries` whose programs were built. Exits when there
    is none, or not all that were asked for."""
    missing = [x for x in asked or libraries if not os.path.exists(program_of(x, place))]
    for library in missing:
        print(f"{library}: {program_of(library, place)} was not built: configure and build after "
              "scripts/install-dependencies peers", file=sys.stderr)
    found = [x for x in asked or libraries if x not in missing]
    if not found or (asked and missing):
        sys.exit(2)
    return found


def commands(variant, ranks, arguments, place, store):
    """The processes to start; the first one prints the results."""
    program = program_of(variant.library, place)
    environment = ["env", *(f"{name}={value}" for name, value in variant.environment)]
    cores = ["--cores", ",".join(map(str, place.cores))] if variant.pinned else []
    run = [program, "--library", variant.library, "--variant", variant.name, *arguments, *cores, *variant.program]
    more_ranks_than_cores = ranks > len(place.cores)
    if variant.library == "ompi":
        yielding = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if more_ranks_than_cores else []
        # Left to itself it counts cores, not their hardware threads, which `place.cores` are.
        slots = ["--host", f"localhost:{min(ranks, len(place.cores))}"] if "--host" not in place.mpirun else []
        return [[*place.prefix(0), "mpirun.openmpi", "--allow-run-as-root", "-n", str(ranks), "--bind-to", "none",
                 *slots, *place.mpirun, *yielding, *variant.launcher, *environment, *run]]
    if variant.library == "mpich":
        # LD_PRELOAD is cut at blanks, which the folder may have; the folders that are searched for what it names are not.
        folders = filter(None, (place.build, os.environ.get("LD_LIBRARY_PATH")))
        shim = [f"LD_LIBRARY_PATH={':'.join(folders)}", "LD_PRELOAD=libtutti-yield-shim.so"]
        yielding = shim if more_ranks_than_cores else []
        return [["mpiexec.mpich", "-n", str(ranks), *environment, *yielding, *run]]
    if variant.library == "gloo":
        return [[*place.prefix(rank), *environment, *run, "--rank", str(rank), "--size", str(ranks), "--store", store,
                 "--interface", place.interface] for rank in range(ranks)]
    port = free_port(place.prefix(0))
    settings = [f"{name}={value}" for name, value in place.environment]
    return [[*place.prefix(rank), *environment, *settings, f"RANK={rank}", f"WORLD_SIZE={ranks}",
             f"MASTER_ADDR={place.address}", f"MASTER_PORT={port}", *run] for rank in range(ranks)]


def leave_on_signals():
    """A script that is told to end ends by an exception, so that what it has started and made goes with it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, lambda caught, _: sys.exit(128 + caught))


@contextlib.contextmanager
def signals_wait():
    """What would end the script waits until this is over. Yields the signals that waited before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(processes, command, **streams):
    """One more of `processes`, which it is by the time that a signal says to end them."""
    with signals_wait() as before:
        processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, **streams,
                                          preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)))


def finish(processes, seconds):
    """Waits for all, but no longer than `seconds`, nor than 2 s after one failed. What went wrong, in words; nothing
    when all ended well."""
    deadline = time.monotonic() + seconds
    running = list(processes)
    while running and time.monotonic() < deadline:
        try:
            running[0].wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            pass
        running = [p for p in running if p.poll() is None]
        if any(p.returncode for p in processes):
            deadline = min(deadline, time.monotonic() + 2)
    bad = [(f"rank {rank}: " if len(processes) > 1 else "")
           + (f"exit status {p.returncode}" if p.returncode > 0 else f"ended by signal {-p.returncode}")
           for rank, p in enumerate(processes) if p.returncode]
    return "; ".join(bad) or (f"not done within {seconds} s" if running else "")


def end(processes):
    """Ends those that still run: asked to, a launcher ends its ranks, which are left if it is killed."""
    with signals_wait():
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + 5
        for process in processes:
            try:
                process.wait(timeout=max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def measure(variant, ranks, points, how, place, limit):
    """Runs `variant` over `points` ((operation, bytes) pairs) with the options `how`, `limit` seconds at most; returns
    what it printed, one dictionary a point, and mode."""
    arguments = ["--points", ",".join(f"{op}:{size}" for op, size in points), "--pages", place.pages,
                 "--begin", str(place.begin), *how]
    said_by_programs = {"mode": "w+", "encoding": "utf-8", "errors": "replace"}  # libraries may print anything
    with tempfile.TemporaryDirectory() as store, tempfile.TemporaryFile(**said_by_programs) as output, \
            tempfile.TemporaryFile(**said_by_programs) as errors:
        processes = []
        try:
            for command in commands(variant, ranks, arguments, place, store):
                start(processes, command, stdout=output, stderr=errors)
            wrong = finish(processes, limit)
        except OSError as error:  # of a launcher that is not there
            wrong = str(error)
        finally:
            end(processes)
        output.seek(0)
        errors.seek(0)
        results = [json.loads(line) for line in output if line.startswith("{") and line.endswith("}\n")]
        if wrong:
            said = errors.read().strip()[-600:]
            raise Failed(f"{variant.library} {variant.name}, {ranks} ranks: {wrong}{': ' if said else ''}{said}", results)
        return results
