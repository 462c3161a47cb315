#include "bootstrap/variables.hpp"

#include <charconv>
#include <cstdlib>

#include <tutti/error.hpp>

namespace tutti::bootstrap {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

void refuse_variable(const char* name, std::string_view expected) {
  throw Error(ErrorCode::invalid_argument,
              std::string(name) + "=" + variable(name).value_or("") + ": expected " + std::string(expected));
}

template <class T>
static std::optional<T> read_number(const char* name, T low, T high) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  T value = 0;
  const auto* end = text->data() + text->size();
  const auto [stop, code] = std::from_chars(text->data(), end, value);
  if (code != std::errc() || stop != end || value < low || value > high)
    refuse_variable(name, high == std::numeric_limits<T>::max()
                              ? "a whole number, at least " + std::to_string(low)
                              : "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value;
}

std::optional<int> number(const char* name, int low, int high) { return read_number(name, low, high); }

std::uint64_t id_number(const char* name) {
  return read_number<std::uint64_t>(name, 0, std::numeric_limits<std::uint64_t>::max()).value_or(0);
}

int required_number(const char* name, const char* because, int low, int high) {
  if (const auto value = number(name, low, high)) return *value;
  throw Error(ErrorCode::invalid_argument,
              std::string(because) + " is set, but " + name + " is not; set both or neither");
}

int port_or(int otherwise) { return number("TUTTI_PORT", 1, 65535).value_or(otherwise); }

}  // namespace tutti::bootstrap
