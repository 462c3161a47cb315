/// \file
/// A rank's launches follow each other, whatever their streams; how far they have come.
#pragma once

#include <cstdint>
#include <memory>

#include "gpu/resources.hpp"

namespace tutti::gpu {

/// One thread at a time.
class Timeline {
 public:
  explicit Timeline(std::shared_ptr<Api> api);

  /// What is enqueued next in `stream` runs after what was marked before: in this capture, if none was begun
  /// since, or outside captures. Costs nothing in the stream that had the last mark.
  void follow(Stream stream, Capture capture);
  /// All up to launch `number` has been enqueued, the last in `stream`.
  void mark(Stream stream, Capture capture, std::uint64_t number);
  /// Outside captures, launches up to this one are through; what is later may be, too. Waits for nothing.
  [[nodiscard]] std::uint64_t done();
  /// Returns when all that was marked outside captures is through.
  void finish();

 private:
  struct Mark {
    OwnEvent event;
    std::uint64_t number = 0;
  };
  std::shared_ptr<Api> api_;
  Mark last_;
  std::uint64_t last_stream_ = 0;  ///< its id
  Mark milestone_;                 ///< an earlier one, until it is known to be reached
  std::uint64_t done_ = 0;         ///< as far as is known
  OwnEvent captured_;              ///< the last mark in a capture
  Capture last_capture_;
  Stream captured_stream_ = nullptr;
};

}  // namespace tutti::gpu
