/// \file
/// The memory that is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <tutti/communicator.hpp>

namespace tutti::perf {

/// An input and an output of `bytes` each: private pages, or memory of Communicator::allocate. All of it is
/// touched.
class Buffers {
 public:
  Buffers(Communicator& comm, std::size_t bytes, bool registered);
  [[nodiscard]] std::byte* in() const { return in_; }
  [[nodiscard]] std::byte* out() const { return out_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> private_in_, private_out_;
  Buffer<std::uint8_t> registered_in_, registered_out_;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
};

}  // namespace tutti::perf
