"""Two hosts on one machine: network namespaces joined by a veth pair. Needs root."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import launch

INTERFACE = "eth0"
ADDRESSES = ("10.99.0.1", "10.99.0.2")


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def inside(name):
    """What to put before a command that is to run on that host."""
    return ["ip", "netns", "exec", name]


def remove(name):
    """The namespace with all that still runs in it."""
    if name not in ip("netns", "list").split():
        return
    for pid in ip("netns", "pids", name).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    ip("netns", "del", name)


@contextlib.contextmanager
def two_hosts():
    """Their names, while they exist."""
    names = [f"tutti-{os.getpid()}-{i}" for i in range(2)]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", INTERFACE, "netns", names[0], "type", "veth", "peer", "name", INTERFACE, "netns", names[1])
        for name, address in zip(names, ADDRESSES):
            ip("-n", name, "address", "add", f"{address}/24", "dev", INTERFACE)
            ip("-n", name, "link", "set", INTERFACE, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        with launch.signals_wait(), contextlib.ExitStack() as last:
            for name in names:
                last.callback(remove, name)


def iperf_gb_per_s(names, streams, both_ways=False):
    """What iperf3 reaches from the first host to the second, or on average each way, by as many connections in each at once."""
    server = subprocess.Popen([*inside(names[1]), "iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE,
                              text=True)
    try:
        for line in server.stdout:
            if "listening" in line:
                break
        client = [*inside(names[0]), "iperf3", "-c", ADDRESSES[1], "-P", str(streams), "-t", "2", "-J",
                  *(["--bidir"] if both_ways else [])]
        asked = subprocess.run(client, capture_output=True, text=True, timeout=30, check=False)
        try:
            report = json.loads(asked.stdout)
            if "error" in report:
                raise KeyError("error")
            ways = [report["end"][way]["bits_per_second"] / 8e9
                    for way in ("sum_received", *(["sum_received_bidir_reverse"] if both_ways else []))]
        except (json.JSONDecodeError, KeyError):
            error = re.search('"error":\\s*"(.*)"', asked.stdout)  # JSON or, where that broke off, none
            said = [error.group(1)] if error else asked.stderr.strip().splitlines()
            sys.exit(f"iperf3 failed: {said[0] if said else f'exit status {asked.returncode}, and no rates'}")
        return sum(ways) / len(ways)
    except subprocess.TimeoutExpired:
        sys.exit("iperf3 failed: it did not end in time")
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
