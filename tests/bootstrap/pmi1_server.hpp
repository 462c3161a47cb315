/// \file
/// A launcher that speaks PMI, as tests have it.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include <tutti/types.hpp>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"
#include "bootstrap/launched.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap::test {

/// The other end of PMI_FD.
class Pmi1Server {
 public:
  Pmi1Server() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    ranks_ = FileDescriptor(ends[0]);
    mine_ = FileDescriptor(ends[1]);
  }
  /// Of rank `rank` of 2.
  [[nodiscard]] Variables variables(Rank rank) const {
    return {{"PMI_FD", std::to_string(ranks_.get())}, {"PMI_RANK", std::to_string(rank)}, {"PMI_SIZE", "2"}};
  }
  void answer(const std::string& lines) const {
    EXPECT_EQ(::write(mine_.get(), lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
  }
  /// Returns once it was asked that last.
  void await(const std::string& command) const {
    std::string text;
    for (const Deadline deadline(std::chrono::seconds(20)); !text.ends_with(command + "\n"); text += asked())
      if (!wait_for(mine_.get(), POLLIN, deadline)) return;
  }
  /// All so far.
  [[nodiscard]] std::string asked() const {
    std::string text(4096, '\0');
    const auto got = ::recv(mine_.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }
  /// Until it has read what was asked, more does not fit.
  void be_full() const {
    const std::array<char, 4096> lines{};
    while (::send(ranks_.get(), lines.data(), lines.size(), MSG_DONTWAIT) > 0) {
    }
  }
  void hang_up() { mine_.reset(); }

 private:
  FileDescriptor ranks_, mine_;
};

}  // namespace tutti::bootstrap::test
