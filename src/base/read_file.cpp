#include "base/read_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <system_error>

#include <tutti/error.hpp>

#include "base/file_descriptor.hpp"
#include "base/uninterrupted.hpp"

namespace tutti {

std::string read_file(const std::string& what, const std::string& file, std::string_view remedy) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, what + " \"" + file + "\": " + why + std::string(remedy));
  };
  const auto cannot = [&] { refuse("cannot be read: " + std::generic_category().message(errno)); };
  const FileDescriptor stream(uninterrupted([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!stream) cannot();
  std::string text;
  std::array<char, 1 << 14> some{};
  for (;;) {
    const auto bytes = uninterrupted([&] { return ::read(stream.get(), some.data(), some.size()); });
    if (bytes < 0) cannot();
    if (bytes == 0) return text;
    text.append(some.data(), static_cast<std::size_t>(bytes));
    if (text.size() > most_file_bytes)
      refuse("holds more than " + std::to_string(most_file_bytes >> 20U) + " MiB");
  }
}

}  // namespace tutti
