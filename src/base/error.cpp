#include <tutti/error.hpp>

#include <utility>

namespace tutti {

std::string_view name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::invalid_schedule:
      return "invalid_schedule";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::peer_lost:
      return "peer_lost";
    case ErrorCode::aborted:
      return "aborted";
    case ErrorCode::unauthorized:
      return "unauthorized";
    case ErrorCode::system:
      return "system";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::forked:
      return "forked";
  }
  return "invalid";
}

Error::Error(ErrorCode code, const std::string& message, std::vector<Rank> ranks)
    : std::runtime_error("tutti: " + std::string(name(code)) + ": " + message),
      code_(code),
      ranks_(std::move(ranks)) {}

}  // namespace tutti
