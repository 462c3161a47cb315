/// \file
/// The processors that a thread may run on, however many the machine could have.
#pragma once

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

namespace tutti {

/// The members of the set that `get(bytes, set)` fills, which ascend. It answers as sched_getaffinity: EINVAL
/// means that the set is too small for the processors that there could be, and larger ones are tried. Empty:
/// it failed, and errno says why.
template <class Get>
std::vector<int> processors_by(const Get& get) {
  constexpr std::size_t most = 1024;  // sets of 1,024 processors each
  for (std::size_t sets = 1; sets <= most; sets *= 2) {
    std::vector<cpu_set_t> all(sets);  // lie side by side, as one larger set
    if (get(all.size() * sizeof(cpu_set_t), all.data()) != 0) {
      if (errno == EINVAL) continue;
      return {};
    }
    std::vector<int> found;
    for (std::size_t i = 0; i < sets * CPU_SETSIZE; ++i)
      if (CPU_ISSET(i % CPU_SETSIZE, &all[i / CPU_SETSIZE])) found.push_back(static_cast<int>(i));
    return found;
  }
  return {};
}

/// Those that this thread may run on. Empty: the system does not say, and errno tells why.
inline std::vector<int> allowed_processors() {
  return processors_by([](std::size_t bytes, cpu_set_t* set) { return ::sched_getaffinity(0, bytes, set); });
}

/// Processors as bytes that ranks tell each other: a bit each, however many there could be.
inline std::string bits_of(const std::vector<int>& processors) {
  std::string bits;
  for (const int one : processors) {
    const auto at = static_cast<std::size_t>(one) / 8;
    if (at >= bits.size()) bits.resize(at + 1);
    bits[at] = static_cast<char>(static_cast<unsigned char>(bits[at]) | 1U << (one % 8));
  }
  return bits;
}

/// How many there are in all of these together.
inline int count_all(const std::vector<std::string>& sets) {
  std::string all;
  for (const std::string& bits : sets) {
    if (bits.size() > all.size()) all.resize(bits.size());
    for (std::size_t i = 0; i < bits.size(); ++i)
      all[i] = static_cast<char>(static_cast<unsigned char>(all[i]) | static_cast<unsigned char>(bits[i]));
  }
  int count = 0;
  for (const char byte : all) count += std::popcount(static_cast<unsigned char>(byte));
  return count;
}

/// Binds this thread, and threads that it starts later, to these, of which there are some. False: the system
/// refused, and errno says why.
inline bool run_on(const std::vector<int>& processors) {
  const auto most = static_cast<std::size_t>(*std::max_element(processors.begin(), processors.end()));
  std::vector<cpu_set_t> all(most / CPU_SETSIZE + 1);
  for (const int one : processors) {
    const auto i = static_cast<std::size_t>(one);
    CPU_SET(i % CPU_SETSIZE, &all[i / CPU_SETSIZE]);
  }
  return ::sched_setaffinity(0, all.size() * sizeof(cpu_set_t), all.data()) == 0;
}

}  // namespace tutti
