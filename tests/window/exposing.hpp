/// \file
/// A network of windows that is not there.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/remote_memory.hpp"
#include "transport/transport.hpp"

namespace tutti::test {

/// Counts those that are gone.
class Exposed final : public transport::RemoteAccess {
 public:
  using Reach = std::function<std::unique_ptr<transport::RemoteMemory>(Rank)>;
  Exposed(int& gone, Reach reach) : gone_(gone), reach_(std::move(reach)) {}
  ~Exposed() override { ++gone_; }
  Exposed(const Exposed&) = delete;
  Exposed& operator=(const Exposed&) = delete;
  Bytes answer(Rank, std::span<const std::byte>) override { return {}; }
  std::unique_ptr<transport::RemoteMemory> reach(Rank rank, Ask) override { return reach_(rank); }
  void progress() override {}
  void wait(std::chrono::microseconds) override {}
  void check(Rank) override {}

 private:
  int& gone_;
  Reach reach_;
};

/// Gives memory to peers, and reaches theirs where a test says how.
class Exposing final : public transport::Transport {
 public:
  [[nodiscard]] std::string_view name() const override { return "exposing"; }
  [[nodiscard]] bool reaches(Rank) const override { return static_cast<bool>(reach); }
  [[nodiscard]] std::string explain(Rank) const override { return "it reaches nobody"; }
  [[nodiscard]] std::size_t max_message_bytes() const override { return 1; }
  transport::Sender& sender(Rank, int) override { throw std::logic_error("it has none"); }
  transport::Receiver& receiver(Rank, int) override { throw std::logic_error("it has none"); }
  std::unique_ptr<transport::RemoteAccess> expose(const transport::Exposure&) override {
    return std::make_unique<Exposed>(gone, reach);
  }
  void progress() override {}
  void wait(std::chrono::microseconds) override {}
  [[nodiscard]] bool add_waits(std::vector<pollfd>&) override { return false; }
  void end_wait(std::span<const pollfd>) override {}
  [[nodiscard]] transport::Traffic traffic() const override { return {}; }

  int gone = 0;
  Exposed::Reach reach;
};

}  // namespace tutti::test
