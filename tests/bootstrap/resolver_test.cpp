// Names of hosts, and a resolver that takes longer than a caller has.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <memory>
#include <string>

#include "base/long_call.hpp"
#include "bootstrap/environment.hpp"
#include "bootstrap/launched.hpp"
#include "bootstrap/own_network.hpp"
#include "bootstrap/ranks.hpp"

namespace tutti::bootstrap::test {
namespace {

TEST(ResultBy, IsThereWhenItIsReadyInTime) {
  EXPECT_EQ(result_by(Deadline(20s), [] { return 7; }).value_or(0), 7);
}

TEST(ResultBy, WhatTakesLongerGoesOnWithWhatItOwns) {
  Child child([] {  // whose thread is beside no fork of another test: ThreadSanitizer takes none
    struct Shared {
      std::latch given_up{1};
      std::promise<std::string> told;
    };
    const auto shared = std::make_shared<Shared>();
    auto told = shared->told.get_future();
    const auto result = result_by(Deadline(10ms), [shared, owned = std::string(100, 'x')] {
      shared->given_up.wait();
      shared->told.set_value(owned);
      return true;
    });
    shared->given_up.count_down();
    if (result || told.wait_for(20s) != std::future_status::ready) return 1;
    return told.get() == std::string(100, 'x') ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

/// Takes the place of a file, for this process. False where that is not permitted.
bool replace_file(const char* path, const std::string& text) {
  const auto mine = std::filesystem::temp_directory_path() / ("tutti-resolver-" + std::to_string(::getpid()));
  std::ofstream(mine) << text;
  const bool replaced = ::mount(mine.c_str(), path, nullptr, MS_BIND, nullptr) == 0;
  std::filesystem::remove(mine);
  return replaced;
}

/// Hears what is asked of a resolver on this host, and answers nothing. Empty where that is not permitted.
FileDescriptor silent_resolver() {
  FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(53);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return socket;
}

TEST(Resolver, OneThatDoesNotAnswerIsNotWaitedForBeyondTheDeadline) {
  constexpr int not_permitted = 77;
  Child child([] {
    if (!enter_own_network(CLONE_NEWNS)) return not_permitted;
    const FileDescriptor silent = silent_resolver();
    if (!silent || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        !replace_file("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n") ||
        !replace_file("/etc/nsswitch.conf", "hosts: dns\n"))
      return not_permitted;
    const Environment environment(
        {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "host.invalid"}, {"MASTER_PORT", "4"}});
    const auto thrown = thrown_by([] { launch_from_environment("", 200ms); });
    const bool says = thrown.text.find(
                          "must name rank 0's host as every rank reaches it: no address for host "
                          "\"host.invalid\" in time") != std::string::npos;
    return thrown.code == ErrorCode::timeout && says ? 0 : 1;
  });
  const int code = child.wait();
  if (code == not_permitted) GTEST_SKIP() << "no permission for a network and mounts of its own";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tutti::bootstrap::test
