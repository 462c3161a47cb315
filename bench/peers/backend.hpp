/// \file
/// What a library has to supply to be measured.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "operation.hpp"

namespace bench {

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void barrier() = 0;
  /// The largest `value` of all ranks.
  virtual double max(double value) = 0;
  /// Tells the library of memory that its calls will use, until the result is destroyed. Most have nothing to
  /// do.
  [[nodiscard]] virtual std::shared_ptr<void> attach(void* /*memory*/, std::size_t /*bytes*/) {
    return nullptr;
  }
  /// A function that runs `call`, as often as it is called; empty when the library has no such operation.
  /// Both buffers hold `call.total` elements. A broadcast is from the root's `in` to the others' `out`.
  virtual std::function<void()> prepare(const Call& call, float* in, float* out) = 0;
};

}  // namespace bench
