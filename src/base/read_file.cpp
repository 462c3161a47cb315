#include "base/read_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <system_error>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"
#include "base/uninterrupted.hpp"

namespace tutti {

std::string read_file(const std::string& what, const std::string& file, std::string_view remedy,
                      std::chrono::milliseconds patience) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, what + " \"" + file + "\": " + why + std::string(remedy));
  };
  const auto cannot = [&] { refuse("cannot be read: " + std::generic_category().message(errno)); };
  // To open a FIFO would wait for its writer, for ever.
  const FileDescriptor stream(
      uninterrupted([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }));
  if (!stream) cannot();
  std::string text;
  std::array<char, 1 << 14> some{};
  for (;;) {
    const Deadline deadline(patience);
    pollfd one{stream.get(), POLLIN, 0};
    if (uninterrupted([&] { return ::poll(&one, 1, deadline.poll_ms()); }) == 0)
      refuse("nothing came from it for " + std::to_string(patience.count()) +
             " ms (a FIFO that nobody writes to?)");
    const auto bytes = uninterrupted([&] { return ::read(stream.get(), some.data(), some.size()); });
    if (bytes < 0) cannot();
    if (bytes == 0) return text;
    text.append(some.data(), static_cast<std::size_t>(bytes));
    if (text.size() > most_file_bytes)
      refuse("holds more than " + std::to_string(most_file_bytes >> 20U) + " MiB");
  }
}

}  // namespace tutti
