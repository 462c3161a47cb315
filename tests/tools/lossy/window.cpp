// Stands between tutti-window-perf and windows: what TUTTI_TEST_LOSE names moves nothing, and notifies as
// ever; with TUTTI_TEST_SLOW every put that does not notify takes so many milliseconds.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <tutti/window.hpp>

namespace tutti {
namespace {

bool is_lost(const std::string& kind) {
  const char* lost = std::getenv("TUTTI_TEST_LOSE");
  return lost != nullptr && lost == kind;
}

Block nothing_of(const Block& block) { return {.local = block.local, .remote = block.remote, .bytes = 0}; }

}  // namespace

// The linker's --wrap leads calls of Window::put and Window::get to __wrap_, and __real_ to the library's.
#define TUTTI_PUT "_ZN5tutti6Window3putEiRKNS_5BlockERKNS_15TransferOptionsE"
#define TUTTI_GET "_ZN5tutti6Window3getEiRKNS_5BlockERKNS_15TransferOptionsE"
Transfer real_put(Window* window, Rank target, const Block& block,
                  const TransferOptions& options) asm("__real_" TUTTI_PUT);
Transfer real_get(Window* window, Rank target, const Block& block,
                  const TransferOptions& options) asm("__real_" TUTTI_GET);
Transfer lossy_put(Window* window, Rank target, const Block& block,
                   const TransferOptions& options) asm("__wrap_" TUTTI_PUT);
Transfer lossy_get(Window* window, Rank target, const Block& block,
                   const TransferOptions& options) asm("__wrap_" TUTTI_GET);

Transfer lossy_put(Window* window, Rank target, const Block& block, const TransferOptions& options) {
  const char* slow = std::getenv("TUTTI_TEST_SLOW");
  if (slow != nullptr && !options.notify)
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(slow)));
  const bool lost = is_lost(options.notify ? "notified puts" : "puts");
  return real_put(window, target, lost ? nothing_of(block) : block, options);
}

Transfer lossy_get(Window* window, Rank target, const Block& block, const TransferOptions& options) {
  return real_get(window, target, is_lost("gets") ? nothing_of(block) : block, options);
}

}  // namespace tutti
