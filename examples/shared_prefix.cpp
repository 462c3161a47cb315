// A prefix that many prompts share (a system prompt) is computed once, on rank 0; the others read its KV
// cache from there when they need it. Readers count themselves in and out of a word beside it, so that the
// owner drops the prefix only when nobody reads it. It has no part in their reading.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

constexpr std::size_t block_bytes = 8192;
constexpr std::size_t blocks = 200;
constexpr std::size_t prefix_bytes = block_bytes * blocks;
constexpr std::size_t readers_at = prefix_bytes;  // a 64-bit word behind the prefix
constexpr std::uint64_t dropped = std::uint64_t{1} << 63;
constexpr std::uint32_t has_read = 0;  // a notification

std::uint8_t cached(std::size_t i) { return static_cast<std::uint8_t>(i * 11 + i / block_bytes); }

/// Every third block first, then the rest: as a cache finds them by their hashes.
std::vector<tutti::Block> scattered() {
  std::vector<tutti::Block> all;
  for (const std::size_t first : {0U, 1U, 2U})
    for (std::size_t b = first; b < blocks; b += 3)
      all.push_back({.local = b * block_bytes, .remote = b * block_bytes, .bytes = block_bytes});
  return all;
}

std::size_t read(tutti::Window& window, std::span<const std::uint8_t> memory) {
  if ((window.fetch_add(0, readers_at, 1) & dropped) != 0)
    return prefix_bytes;  // too late; not in this program
  window.post(window.prepare_get(0, scattered())).wait();
  window.fetch_add(0, readers_at, static_cast<std::uint64_t>(-1));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < prefix_bytes; ++i) wrong += memory[i] != cached(i);
  window.notify(0, has_read);
  window.flush(0);
  return wrong;
}

/// Waits until all have read once, then drops the prefix: only if nobody reads it.
bool own(tutti::Window& window, int readers) {
  window.wait_notification(has_read, static_cast<std::uint64_t>(readers));
  return window.compare_swap(0, readers_at, 0, dropped) == 0;
}

void serve(tutti::Communicator& comm, bool& good) {
  auto memory = comm.allocate<std::uint8_t>(prefix_bytes + sizeof(std::uint64_t));
  if (comm.rank() == 0)
    for (std::size_t i = 0; i < prefix_bytes; ++i) memory[i] = cached(i);
  tutti::Window window(comm, memory.span(), {.name = "prefix"});
  if (comm.rank() == 0) {
    good = own(window, comm.size() - 1);
    std::printf("rank 0: %d ranks have read %zu KiB; dropped: %s\n", comm.size() - 1, prefix_bytes / 1024,
                good ? "yes" : "no");
  } else {
    const std::size_t wrong = read(window, memory.span());
    good = wrong == 0;
    std::printf("rank %d: read the prefix by %s, %zu bytes wrong\n", comm.rank(), window.path(0).c_str(),
                wrong);
  }
  comm.barrier();  // nobody uses this rank's memory any more
}

}  // namespace

int main() {
  auto comm = tutti::Communicator::from_environment();
  if (comm.size() > 1) {
    bool good = false;
    serve(comm, good);
    return good ? 0 : 1;
  }
  std::array<bool, 3> good{};
  tutti::run_local(
      3, [&](tutti::Communicator& all) { serve(all, good.at(static_cast<std::size_t>(all.rank()))); });
  return good[0] && good[1] && good[2] ? 0 : 1;
}
