/// \file
/// The ends of queue pairs at the target of a window, and the notifications that come through them as
/// immediates.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "transport/remote_memory.hpp"
#include "transport/verbs/completion_events.hpp"
#include "transport/verbs/memory.hpp"
#include "transport/verbs/queue_pair.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

/// Every source may have so many notifications under way as there are receives posted for it. When half of
/// them were taken, as many receives are posted again, and only then is the source told, by a WRITE of the
/// running total into its memory. So it never meets an empty queue, and it needs no call of its own to learn.
/// While the target takes none, sources write totals into its counters instead.
///
/// Queue pairs are made by the server's thread; their completions are taken by the window's.
class ServedPairs {
 public:
  /// `exposure` must stay. `max_completions`: the device's, in one queue; sources beyond it get no receives.
  /// Throws Error(system).
  ServedPairs(Verbs& verbs, ibv_context* context, ibv_pd* domain, const Place& place,
              const Exposure& exposure, int max_completions);
  ServedPairs(const ServedPairs&) = delete;
  ServedPairs& operator=(const ServedPairs&) = delete;

  /// Makes the other end of a queue pair; fills in `address` and `signals`. A rank that asks again has given
  /// up its earlier pair, whose place the new one takes. Throws Error(system).
  void serve(QueuePairSetting setting, const WindowQuestion& question, WindowAnswer& answer);
  /// Takes what has come; true if there was anything. Throws Error(system).
  bool take();
  /// Sleeps until something may have come; at most `longest`.
  void wait(std::chrono::microseconds longest);

 private:
  struct Source {
    QueuePairSetting setting;
    std::unique_ptr<QueuePair> pair;
    WindowQuestion question;
    std::uint64_t* returned =
        nullptr;  ///< what was written to the source; registered. nullptr: it has no receives
    std::uint64_t taken = 0;
    bool failed = false;  ///< gets no more receives
  };
  void take(const ibv_wc& completion);
  void post_receives(const Source& source);
  void give_back(Source& source);
  void post_back(Source& source);

  Verbs& verbs_;
  const Exposure& exposure_;
  Place place_;
  std::size_t most_;  ///< sources that get receives
  CompletionEvents events_;
  CompletionQueue completions_;
  Block returned_;  ///< a word a source, to write from
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, Source> sources_;  ///< by the number of the queue pair
};

}  // namespace tutti::transport::verbs
