// Disaggregated serving: one rank computes the KV cache of a prompt (prefill) and moves it, layer by layer,
// into the paged cache of another rank, which starts to decode as soon as the first layer is there. Ranks
// work in pairs: even ones prefill, odd ones decode. Alone, the program makes two ranks of its threads.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <span>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

constexpr std::size_t layers = 8;
constexpr std::size_t page_bytes = std::size_t{16} * 512;  // 16 tokens
constexpr std::size_t pages = 96;                          // of each layer, in each cache
constexpr std::size_t prompt_pages = 64;
constexpr int prompts = 3;
constexpr std::uint32_t cache_is_free = layers;  // notifications below tell that a layer is there

using Pages = std::vector<std::uint32_t>;

/// Which pages of its cache a rank has free for a prompt: any, in any order.
Pages free_pages(unsigned seed) {
  Pages all(pages);
  std::iota(all.begin(), all.end(), 0U);
  std::ranges::shuffle(all, std::mt19937(seed));
  all.resize(prompt_pages);
  return all;
}

std::size_t offset_of(std::size_t layer, std::uint32_t page) { return (layer * pages + page) * page_bytes; }

/// Byte i of a prompt's page in a layer: what the model would have computed.
std::uint8_t cached(int prompt, std::size_t layer, std::size_t page, std::size_t i) {
  return static_cast<std::uint8_t>(i * 3 + page * 5 + layer * 17 + static_cast<std::size_t>(prompt) * 101);
}

void prefill(tutti::Window& window, std::span<std::uint8_t> cache, tutti::Rank decoder, const Pages& mine,
             const Pages& theirs) {
  // One batch a layer, prepared once and posted for each prompt.
  std::vector<tutti::Batch> batches;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::vector<tutti::Block> blocks;
    for (std::size_t p = 0; p < prompt_pages; ++p)
      blocks.push_back(
          {.local = offset_of(layer, mine[p]), .remote = offset_of(layer, theirs[p]), .bytes = page_bytes});
    batches.push_back(window.prepare_put(decoder, blocks));
  }
  for (int prompt = 0; prompt < prompts; ++prompt) {
    if (prompt > 0) window.wait_notification(cache_is_free);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      for (std::size_t p = 0; p < prompt_pages; ++p)
        for (std::size_t i = 0; i < page_bytes; ++i)
          cache[offset_of(layer, mine[p]) + i] = cached(prompt, layer, p, i);
      window.post(batches[layer], {.notify = layer});  // and on with the next layer, while this one travels
    }
    window.flush(decoder);
  }
}

std::size_t decode(tutti::Window& window, std::span<const std::uint8_t> cache, tutti::Rank prefiller,
                   const Pages& mine) {
  std::size_t wrong = 0;
  for (int prompt = 0; prompt < prompts; ++prompt) {
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      window.wait_notification(layer, 1, prefiller);
      for (std::size_t p = 0; p < prompt_pages; ++p)
        for (std::size_t i = 0; i < page_bytes; ++i)
          wrong += cache[offset_of(layer, mine[p]) + i] != cached(prompt, layer, p, i);
    }
    window.notify(prefiller, cache_is_free);
  }
  window.flush(prefiller);
  return wrong;
}

void serve(tutti::Communicator& comm, std::size_t& wrong) {
  const bool prefills = comm.rank() % 2 == 0;
  const tutti::Rank other = prefills ? comm.rank() + 1 : comm.rank() - 1;
  auto cache = comm.allocate<std::uint8_t>(layers * pages * page_bytes);
  tutti::Window window(comm, cache.span(), {.name = "kv cache", .notifications = layers + 1});
  if (other < comm.size()) {
    const Pages mine = free_pages(static_cast<unsigned>(comm.rank()) + 1);
    if (prefills) {
      Pages theirs(prompt_pages);
      comm.receive(theirs, other);
      prefill(window, cache.span(), other, mine, theirs);
    } else {
      comm.send(mine, other);
      wrong = decode(window, cache.span(), other, mine);
      std::printf("rank %d: %d prompts of %zu layers x %zu KiB by %s, %zu bytes wrong\n", comm.rank(),
                  prompts, layers, prompt_pages * page_bytes / 1024, window.path(other).c_str(), wrong);
    }
  }
  comm.barrier();  // nobody uses this rank's memory any more
}

}  // namespace

int main() {
  auto comm = tutti::Communicator::from_environment();
  std::size_t wrong = 0;
  std::size_t ignored = 0;
  if (comm.size() > 1)
    serve(comm, wrong);
  else
    tutti::run_local(2, [&](tutti::Communicator& pair) { serve(pair, pair.rank() == 1 ? wrong : ignored); });
  return wrong == 0 ? 0 : 1;
}
