/// \file
/// Owner of a file descriptor.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace tutti {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes over `fd`, by another number if its own belongs to a standard stream, which whoever started this
  /// process has closed: what is printed there, by anybody, would go into what this is. Closed on exec then.
  explicit FileDescriptor(int fd) : fd_(fd) {
    if (fd >= 0 && fd <= STDERR_FILENO) leave_standard_streams();
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  void leave_standard_streams() {
    const int other = ::fcntl(fd_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (other < 0) return;  // the limit of descriptors; it works by any number
    ::close(fd_);
    fd_ = other;
  }

  int fd_ = -1;
};

}  // namespace tutti
