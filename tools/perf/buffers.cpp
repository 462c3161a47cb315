#include "perf/buffers.hpp"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include <tutti/error.hpp>

namespace tutti::perf {

namespace {

constexpr std::size_t page_bytes = 4096;

std::byte* allocate_pages(std::size_t bytes) {
  void* memory = std::aligned_alloc(page_bytes, (bytes + page_bytes - 1) / page_bytes * page_bytes);
  if (memory == nullptr)
    throw Error(ErrorCode::system,
                fmt::format("no {} bytes of memory for a buffer; choose a smaller size with -e", bytes));
  return static_cast<std::byte*>(memory);
}

}  // namespace

void Buffers::Free::operator()(std::byte* memory) const { std::free(memory); }

Buffers::Buffers(Communicator& comm, std::size_t bytes, bool registered) {
  if (registered) {
    registered_in_ = comm.allocate<std::uint8_t>(bytes);
    registered_out_ = comm.allocate<std::uint8_t>(bytes);
    in_ = reinterpret_cast<std::byte*>(registered_in_.data());
    out_ = reinterpret_cast<std::byte*>(registered_out_.data());
  } else {
    private_in_.reset(allocate_pages(bytes));
    private_out_.reset(allocate_pages(bytes));
    in_ = private_in_.get();
    out_ = private_out_.get();
  }
  std::memset(in_, 0, bytes);
  std::memset(out_, 0, bytes);
}

}  // namespace tutti::perf
