// What goes wrong between two hosts, which do not see each other's log of calls, is named all the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <tutti/tutti.hpp>
#include <vector>

#include "bootstrap/ranks.hpp"
#include "rig.hpp"
#include "two_hosts.hpp"

namespace tutti::transport::testing {

namespace {

using std::chrono::seconds;
using test::thrown_by;

Communicator from_torchrun(Rank rank, const char* transport = "", const char* interface = "eth0") {
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"RANK", std::to_string(rank)},
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "10.77.0.1"},
                                    {"MASTER_PORT", "29787"},
                                    {"TUTTI_INTERFACE", interface}})
    ::setenv(name, value.c_str(), 1);
  Options options = Options::from_environment();
  options.timeout = seconds(2);
  options.transport = transport;
  return Communicator::from_environment(options);
}

using Part = std::function<void(Communicator&)>;
struct Differing {
  const char* what;
  Part parts[2];              ///< by rank
  std::vector<Rank> failing;  ///< who must fail by itself; the others fail with it
  std::vector<Rank> ranks;    ///< that it names
  std::vector<const char*> texts;
};

std::vector<Differing> differing_calls() {
  static float in[8], out[8];
  static std::vector<std::size_t> twos{2, 2}, three{2, 3};
  constexpr auto f32 = DataType::float32;
  const auto reduce = [](std::size_t count) {
    return [count](Communicator& c) { c.all_reduce(in, out, count, f32); };
  };
  const auto broadcast = [](Rank root) {
    return [root](Communicator& c) { c.broadcast(in, in, 4, f32, root); };
  };
  return {
      {"counts", {reduce(4), reduce(5)}, {}, {}, {"all_reduce(4 x float32", "all_reduce(5 x float32"}},
      {"operations", {reduce(4), broadcast(0)}, {}, {}, {"all_reduce(4 x float32", "broadcast(4 x float32"}},
      {"roots", {broadcast(0), broadcast(1)}, {}, {}, {"root 0", "root 1"}},
      {"what is sent",
       {[](Communicator& c) { c.send(in, 4, f32, 1); }, [](Communicator& c) { c.receive(out, 5, f32, 0); }},
       {1},
       {1, 0},
       {"receive(5 x float32, from rank 0)", "rank 0 sent another message"}},
      {"lengths for one rank",
       {[](Communicator& c) { c.all_to_all_v(in, three, {}, out, twos, {}, f32); },
        [](Communicator& c) { c.all_to_all_v(in, twos, {}, out, twos, {}, f32); }},
       {1},
       {1, 0},
       {"rank 0 sends this one another number of elements than it expects, 2"}},
      {"a call that its rank has left",
       {reduce(4),
        [](Communicator& c) {
          c.broadcast(in, in, 4, f32, 1);
          std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // it computes
        }},
       {0},
       {0, 1},
       {"all_reduce(4 x float32", "rank 1 sent a message of another call"}},
  };
}

void differ(Rank rank, int /*socket*/) {
  Communicator comm = from_torchrun(rank);
  for (const Differing& one : differing_calls()) {
    Communicator mine = comm.duplicate();
    const auto thrown = thrown_by([&] {
      one.parts[rank](mine);
      mine.barrier();
    });
    const std::string found = std::string(one.what) + ", rank " + std::to_string(rank) + ": " + thrown.text;
    const bool fails = std::ranges::find(one.failing, rank) != one.failing.end();
    require(thrown.code == ErrorCode::mismatch || (!fails && thrown.code == ErrorCode::aborted), found);
    if (fails) require(thrown.ranks == one.ranks, found);
    for (const char* text : one.texts) require(thrown.text.find(text) != std::string::npos, found);
    comm.barrier();
  }
}

// Rank 1 comes when rank 0 has given up: that is the cause, and no deadline of rank 1's.
void come_too_late(Rank rank, int /*socket*/) {
  Communicator comm = from_torchrun(rank);
  Communicator mine = comm.duplicate();
  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  std::vector<float> values(4);
  const auto thrown = thrown_by([&] {
    if (rank == 0)
      mine.all_reduce(std::span(values));
    else
      mine.barrier();
  });
  require(thrown.code == (rank == 0 ? ErrorCode::timeout : ErrorCode::aborted), thrown.text);
  require(thrown.ranks == std::vector<Rank>{1}, thrown.text);
  require(thrown.text.find("all_reduce(4 x float32, sum)") != std::string::npos, thrown.text);
  require(thrown.text.find("nothing moved for 2") != std::string::npos, thrown.text);
  comm.barrier();
}

// As a process that is killed.
void die(Rank rank, int /*socket*/) {
  Communicator comm = from_torchrun(rank);
  comm.barrier();
  if (rank == 1) ::_exit(0);
  const Deadline soon(std::chrono::milliseconds(1900));  // before its own
  const auto thrown = thrown_by([&] { comm.barrier(); });
  require(!soon.passed(), "it is noticed no earlier than by a deadline");
  require(thrown.code == ErrorCode::peer_lost, thrown.text);
  require(thrown.ranks == std::vector<Rank>{1}, thrown.text);
}

void force(Rank rank, const char* transport, const std::string& text) {
  const auto thrown = thrown_by([&] { from_torchrun(rank, transport); });
  require(thrown.code == ErrorCode::unsupported, thrown.text);
  require(thrown.text.find("transport " + std::string(transport) + " is forced, but " + text) !=
              std::string::npos,
          thrown.text);
}
void force_shm(Rank rank, int /*socket*/) { force(rank, "shm", "not all ranks are on one host"); }
void force_verbs(Rank rank, int /*socket*/) { force(rank, "verbs", "verbs: "); }

// Of which the others hear.
void hide(Rank rank, int /*socket*/) {
  const auto thrown = thrown_by([&] {
    const std::string interface = rank == 0 ? "lo" : "eth0";
    Communicator comm = from_torchrun(rank, "", interface.c_str());
    comm.barrier();
  });
  require(thrown.code == ErrorCode::invalid_argument || thrown.code == ErrorCode::aborted, thrown.text);
  require(thrown.text.find("rank 0: it listens at 127.0.0.1, which only its own host (or network") !=
              std::string::npos,
          thrown.text);
}

class HostsErrors : public ::testing::TestWithParam<std::pair<const char*, void (*)(Rank, int)>> {};
INSTANTIATE_TEST_SUITE_P(Between, HostsErrors,
                         ::testing::Values(std::pair("CallsThatDiffer", &differ),
                                           std::pair("ADeadline", &come_too_late), std::pair("ADeath", &die),
                                           std::pair("SharedMemoryThatIsForced", &force_shm),
                                           std::pair("RdmaThatIsForced", &force_verbs),
                                           std::pair("AnInterfaceThatLeadsNowhere", &hide)),
                         [](const auto& row) { return row.param.first; });

TEST_P(HostsErrors, AreNamed) {
  TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  EXPECT_EQ(hosts.run(GetParam().second), "");
}

}  // namespace

}  // namespace tutti::transport::testing
