/// \file
/// What a person may choose; everything has a default.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tutti {

/// Settings of a communicator. Its ranks must agree on `transport`, `algorithm`, `node_size`, `rank_order`,
/// `tcp_streams` and `stream_from`; if they do not, making it throws Error(mismatch). Only
/// `from_environment()` reads the variables that are named below: `Options{.timeout = 5s}` does not (but
/// TUTTI_INTERFACE always says where a new unique id listens, unless `interface` does).
struct Options {
  /// Longest that a call waits for other ranks while nothing moves. Whatever moves starts it anew, so a long
  /// transfer may take longer. A time for which this rank is stopped (SIGSTOP) counts as 100 ms. Joining a
  /// group, and a wait of a window, may take this long altogether. Not 0; more than a century is a century.
  /// TUTTI_TIMEOUT, in seconds: 0.001 to 1000000.
  std::chrono::milliseconds timeout{30000};
  /// Network interface (name, address, or "default": that of the default route) at which this rank listens
  /// for what is not shared memory or RDMA. Rank 0 also listens there for those that join, unless its address
  /// is in the unique id or follows from a host's name (Slurm, torchrun). Empty: the one by which this rank
  /// reaches rank 0. One that does not exist, is down or has link-local addresses only is an
  /// Error(invalid_argument); a missing default route is an Error(system). TUTTI_INTERFACE.
  std::string interface = {};
  /// Force a transport: "shm", "verbs" (RDMA; docs/rdma.md) or "tcp"; empty: the best that reaches each peer.
  /// TUTTI_TRANSPORT.
  std::string transport = {};
  /// Force an algorithm ("ring", "two_shot", ...) for every operation that has one of that name.
  /// Error(invalid_argument) for a name that none has; there, or by a call, for one that needs memory of
  /// others ("direct"), does not reduce in the order that `rank_order` asks, or knows nodes where hosts make
  /// none. TUTTI_ALGORITHM.
  std::string algorithm = {};
  /// Ranks a node, for algorithms that know nodes ("hierarchical", "hierarchical_tree"): every so many
  /// consecutive ranks are one. 0: as many as the hosts have, when all hosts but the last have the same
  /// number of consecutive ranks. TUTTI_NODE_SIZE.
  int node_size = 0;
  /// Reduce in rank order, ((r0 + r1) + r2) + ..., whatever the size: results are then the same across
  /// algorithms, transports and numbers of hosts. TUTTI_RANK_ORDER=1.
  bool rank_order = false;
  /// TCP connections a channel. TUTTI_TCP_STREAMS, 1 to 16.
  int tcp_streams = 1;
  /// Congestion control of TCP connections: a name that the kernel knows, or "system" for its default. Empty:
  /// "reno" where the round trip is shorter than a millisecond, since its window grows by round trips, not by
  /// the clock (docs/experiments-devices.md); else the default. TUTTI_TCP_CONGESTION.
  std::string tcp_congestion = {};
  /// Constants of this machine, by which algorithms are chosen: a file that tutti-tune wrote, or "off".
  /// Empty: the file where tutti-tune leaves it, in XDG_CACHE_HOME or ~/.cache, if it is there and can be
  /// used; Communicator::predict says if not. Ranks take what rank 0 finds. TUTTI_TUNING.
  std::string tuning = {};
  /// Results of calls of at least this many bytes are written past the caches, by non-temporal stores. By
  /// default, results in registered memory are when the last cache, of which 32 MiB count at most, cannot
  /// hold the buffers of all ranks. Of other calls whose results all together exceed it, some are made either
  /// way, and the faster way is kept (docs/experiments-caches.md). TUTTI_STREAM_FROM, bytes.
  std::size_t stream_from = static_cast<std::size_t>(-1);

  /// Put plain buffers that come again, and that other processes of this host reach by cross-memory attach,
  /// into transparent huge pages (madvise(2), MADV_COLLAPSE), in one of their first calls. Attach then takes
  /// half of the time. No memory is added; contents and addresses stay. Nothing is done where the system is
  /// told to use none ("never" in /sys/kernel/mm/transparent_hugepage/enabled), nor to memory whose owner
  /// advised against it (MADV_NOHUGEPAGE). Each rank decides by itself. TUTTI_HUGE_PAGES=0 for no.
  bool huge_pages = true;

  /// The defaults, overridden by the variables named above. Throws Error(invalid_argument) naming variable
  /// and value. Any thread may ask while none changes the environment (setenv).
  static Options from_environment();
};

}  // namespace tutti
