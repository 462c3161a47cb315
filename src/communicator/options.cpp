#include <tutti/options.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <tutti/error.hpp>

#include "communicator/option_limits.hpp"

namespace tutti {

namespace {

template <class T>
void read(const char* variable, T& value, T low, T high) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return;
  T parsed{};
  const char* end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, parsed);
  if (code != std::errc{} || stop != end || !(parsed >= low && parsed <= high))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}={} is not a number from {} to {}", variable, text, low, high));
  value = parsed;
}

void read(const char* variable, std::string& value) {
  if (const char* text = std::getenv(variable)) value = text;
}

}  // namespace

Options Options::from_environment() {
  Options options;
  double seconds = std::chrono::duration<double>(options.timeout).count();
  read("TUTTI_TIMEOUT", seconds, 0.001, 1e6);
  options.timeout = std::chrono::milliseconds(std::llround(seconds * 1e3));
  read("TUTTI_INTERFACE", options.interface);
  read("TUTTI_TRANSPORT", options.transport);
  read("TUTTI_ALGORITHM", options.algorithm);
  read("TUTTI_NODE_SIZE", options.node_size, 0, most_ranks);
  int rank_order = 0;
  read("TUTTI_RANK_ORDER", rank_order, 0, 1);
  options.rank_order = rank_order != 0;
  read("TUTTI_TCP_STREAMS", options.tcp_streams, 1, most_tcp_streams);
  read("TUTTI_TCP_CONGESTION", options.tcp_congestion);
  read("TUTTI_TUNING", options.tuning);
  read("TUTTI_STREAM_FROM", options.stream_from, std::size_t{0}, static_cast<std::size_t>(-1));
  int huge_pages = 1;
  read("TUTTI_HUGE_PAGES", huge_pages, 0, 1);
  options.huge_pages = huge_pages != 0;
  return options;
}

}  // namespace tutti
