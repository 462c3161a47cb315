// What the launchers' variables mean. Each test runs with an environment of its own.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "bootstrap/authenticate.hpp"
#include "bootstrap/launched.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/pmi1_server.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/socket.hpp"
#include "times_in.hpp"
#include "topology/interface.hpp"

namespace tutti::bootstrap::test {
namespace {

using testing::HasSubstr;
using tutti::test::times_in;

Launch identity(const Variables& variables) {
  const Environment environment(variables);
  return find_launcher(Deadline(60s))->identity();
}

Rendezvous agreed(const Variables& variables, const std::string& interface = "") {
  const Environment environment(variables);
  return read(find_launcher(Deadline(60s))->agree(interface, Deadline(60s)));
}

Variables with(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

const Variables torchrun{{"RANK", "3"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "10.9.8.7"},
                         {"MASTER_PORT", "29500"}};
const Variables slurm{{"SLURM_PROCID", "5"},         {"SLURM_NTASKS", "7"},
                      {"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_STEP_ID", "2"},
                      {"SLURM_JOB_ID", "1234"},      {"SLURM_STEP_NODELIST", "127.0.0.[3-4]"},
                      {"SLURM_NODEID", "1"},         {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                      {"SLURM_LOCALID", "1"}};

TEST(Environment, NothingMeansOneRank) {
  const auto launch = identity({});
  EXPECT_EQ(launch.launcher, "none");
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.size, 1);
}

TEST(Environment, TuttisOwn) {
  const auto id = reserve_id("");
  const Variables own{{"TUTTI_RANK", "2"}, {"TUTTI_SIZE", "3"}, {"TUTTI_ID", id.to_string()}};
  const auto launch = identity(
      with(own, {{"RANK", "0"}, {"WORLD_SIZE", "9"}, {"TUTTI_LOCAL_RANK", "1"}, {"TUTTI_LOCAL_SIZE", "2"}}));
  EXPECT_EQ(launch.launcher, "tutti");
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 3);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(agreed(own).secret, read(id).secret);
  EXPECT_EQ(agreed(own).endpoint.port, read(id).endpoint.port);
  EXPECT_EQ(identity({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "1"}}).size, 1);
}

TEST(Environment, Torchrun) {
  const auto launch = identity(torchrun);
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(to_string(agreed(torchrun).endpoint), "10.9.8.7:29501");
  EXPECT_EQ(to_string(agreed(with(torchrun, {{"TUTTI_PORT", "777"}})).endpoint), "10.9.8.7:777");
  EXPECT_EQ(identity({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).launcher, "torchrun");
  EXPECT_EQ(identity(with(torchrun, {{"LOCAL_WORLD_SIZE", ""}})).local_size, 1) << "a local rank alone";
  const auto both = with(torchrun, {{"PMI_FD", "987"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(identity(both).launcher, "PMI-1");
  EXPECT_EQ(identity(with(both, {{"TORCHELASTIC_RUN_ID", "x"}})).launcher, "torchrun") << "set by itself";
}

TEST(Environment, AHostNameThatIsTheLoopbackHereBecomesAnAddressForTheOthers) {
  const auto local = with(torchrun, {{"MASTER_ADDR", "localhost"}});
  EXPECT_TRUE(topology::is_loopback(agreed(local).endpoint.address));
  EXPECT_TRUE(
      topology::is_loopback(agreed(with(local, {{"RANK", "0"}, {"LOCAL_RANK", "0"}})).endpoint.address));
}

TEST(Environment, Slurm) {
  const auto launch = identity(slurm);
  EXPECT_EQ(launch.launcher, "Slurm");
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 7);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 3);
  const auto first = agreed(slurm);
  EXPECT_EQ(first.endpoint.address, "127.0.0.3");
  EXPECT_EQ(first.endpoint.port, 15'000 + (1234 * 31 + 2) % 17'000);
  EXPECT_EQ(agreed(with(slurm, {{"TUTTI_PORT", "777"}})).endpoint.port, 777);
  EXPECT_NE(agreed(with(slurm, {{"SLURM_STEP_ID", "3"}})).endpoint.port, first.endpoint.port);
  EXPECT_EQ(identity({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "a"}}).launcher,
            "none")
      << "a batch script is one process";
  // The shell that salloc opens is a step, too, of one task and with an id beyond int.
  const auto shell = with(slurm, {{"SLURM_PROCID", "0"},
                                  {"SLURM_STEP_NUM_TASKS", "1"},
                                  {"SLURM_STEP_ID", "4294967290"},
                                  {"SLURM_NODEID", "0"},
                                  {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                  {"SLURM_LOCALID", "0"}});
  EXPECT_EQ(identity(shell).size, 1);
}

TEST(Environment, RanksOfAJobAgreeAndJobsDiffer) {
  for (const auto& [base, rank, job] :
       {std::tuple(torchrun, "RANK", "TORCHELASTIC_RUN_ID"), {slurm, "SLURM_PROCID", "SLURM_JOB_ID"}}) {
    const auto secret = agreed(base).secret;
    EXPECT_EQ(agreed(with(base, {{rank, "4"}})).secret, secret);
    EXPECT_NE(agreed(with(base, {{job, "999"}})).secret, secret);
    EXPECT_NE(agreed(with(base, {{"TUTTI_SECRET", "x"}})).secret, secret);
  }
  // Nodes of a job count restarts by themselves: after a failure their numbers differ.
  EXPECT_EQ(agreed(with(torchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})).secret, agreed(torchrun).secret);
}

TEST(Environment, VariablesThatMakeNoSenseAreNamed) {
  const auto id = reserve_id("").to_string();
  const Variables own{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_ID", id}};
  const Variables pmi{{"PMI_FD", "0"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  const std::vector<std::pair<Variables, std::string>> cases{
      {with(own, {{"TUTTI_RANK", "2"}}), "TUTTI_RANK=2: expected less than TUTTI_SIZE, which is 2"},
      {with(own, {{"TUTTI_RANK", "-1"}}), "TUTTI_RANK=-1: expected a whole number"},
      {with(own, {{"TUTTI_RANK", "one"}}), "TUTTI_RANK=one: expected a whole number"},
      {with(own, {{"TUTTI_RANK", "1x"}}), "TUTTI_RANK=1x"},
      {with(own, {{"TUTTI_RANK", " 1"}}), "TUTTI_RANK= 1"},
      {with(own, {{"TUTTI_SIZE", "0"}}), "TUTTI_SIZE=0"},
      {with(own, {{"TUTTI_SIZE", "99999999999"}}), "TUTTI_SIZE=99999999999"},
      {with(own, {{"TUTTI_ID", "tutti-00"}}), "TUTTI_ID: not a unique id"},
      {with(own, {{"TUTTI_ID", ""}}), "TUTTI_ID is not"},
      {with(own, {{"TUTTI_LOCAL_SIZE", "3"}}), "TUTTI_LOCAL_SIZE=3: expected at most the 2 ranks"},
      {with(own, {{"TUTTI_LOCAL_SIZE", "1"}, {"TUTTI_LOCAL_RANK", "1"}}), "TUTTI_LOCAL_RANK=1: "},
      {with(own, {{"TUTTI_LOCAL_RANK", "x"}}), "TUTTI_LOCAL_RANK=x: expected a whole number"},
      {{{"TUTTI_RANK", "0"}}, "TUTTI_RANK is set, but TUTTI_SIZE is not"},
      {{{"TUTTI_ID", id}}, "TUTTI_ID is set, but TUTTI_SIZE is not"},
      {{{"TUTTI_SIZE", "2"}}, "TUTTI_SIZE is set, but TUTTI_RANK is not"},
      {with(pmi, {{"PMI_RANK", "x"}}), "PMI_RANK=x"},
      {with(pmi, {{"PMI_FD", "x"}}), "PMI_FD=x"},
      {with(torchrun, {{"WORLD_SIZE", ""}}), "RANK is set, but WORLD_SIZE is not"},
      {with(torchrun, {{"RANK", ""}}), "WORLD_SIZE is set, but RANK is not"},
      {with(torchrun, {{"RANK", "8"}}), "RANK=8: expected less than WORLD_SIZE, which is 8"},
      {with(torchrun, {{"WORLD_SIZE", "many"}}), "WORLD_SIZE=many"},
      {with(torchrun, {{"MASTER_PORT", "65535"}}),
       "MASTER_PORT=65535: expected a whole number from 1 to 65534"},
      {with(torchrun, {{"MASTER_PORT", ""}}), "MASTER_PORT is not"},
      {with(torchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR is not"},
      {with(torchrun, {{"TUTTI_PORT", "0"}}), "TUTTI_PORT=0: expected a whole number from 1 to 65535"},
      {with(torchrun, {{"LOCAL_RANK", "4"}}), "LOCAL_RANK=4: expected less than LOCAL_WORLD_SIZE"},
      {with(torchrun, {{"LOCAL_WORLD_SIZE", ""}, {"LOCAL_RANK", "zz"}}), "LOCAL_RANK=zz"},
      {with(slurm, {{"SLURM_PROCID", "7"}}),
       "SLURM_PROCID=7: expected less than SLURM_STEP_NUM_TASKS, which is 7"},
      {with(slurm, {{"SLURM_STEP_NODELIST", "n[1-"}}), "SLURM_STEP_NODELIST: \"n[1-\" is not"},
      {with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "four"}}), "SLURM_STEP_TASKS_PER_NODE: \"four\" is"},
      {with(slurm, {{"SLURM_NODEID", "2"}}), "SLURM_NODEID=2"},
      {with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", ""}, {"SLURM_LOCALID", "zz"}}), "SLURM_LOCALID=zz"},
      {with(slurm, {{"SLURM_JOB_ID", "abc"}}), "SLURM_JOB_ID=abc"}};
  for (const auto& [variables, text] : cases) {
    const auto thrown = thrown_by([&, &given = variables] { identity(given); });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << text;
    EXPECT_THAT(thrown.text, HasSubstr(text));
  }
}

TEST(Environment, ADescriptorThatIsNoLauncherIsAnError) {
  const auto thrown = thrown_by([] { agreed({{"PMI_FD", "987"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}); });
  EXPECT_EQ(thrown.code, ErrorCode::system);
  EXPECT_THAT(thrown.text, HasSubstr("PMI: \"cmd=init\""));
}

TEST(Environment, ADescriptorThatSaysNothingIsAnErrorThatNamesIt) {
  Pmi1Server server;
  const Environment environment(server.variables(0));
  const auto launcher = find_launcher(Deadline(60s));
  const auto thrown = thrown_by([&] { launcher->agree("", Deadline(50ms)); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_THAT(thrown.text, HasSubstr("\"cmd=init\" was not answered in time"));
  EXPECT_THAT(thrown.text, HasSubstr("PMI_FD, unset that"));
  server.hang_up();  // or it would wait for a goodbye
}

TEST(Environment, ALauncherWhoseLimitsMakeNoSenseIsAnError) {
  for (const auto& [limit, code, text] :
       {std::tuple("vallen_max=lots", ErrorCode::system, "\"lots\" bytes, which is no number; start"),
        {"vallen_max=99999999999999999999", ErrorCode::system, "which is no number"},
        {"", ErrorCode::system, "\"\" bytes"},
        {"vallen_max=16", ErrorCode::unsupported, "no values as long as a unique id; start the ranks by"}}) {
    const Pmi1Server server;
    server.answer("cmd=response_to_init rc=0\ncmd=maxes kvsname_max=256 " + std::string(limit) +
                  "\ncmd=finalize_ack\n");
    const auto thrown = thrown_by([&] { agreed(server.variables(0)); });
    EXPECT_EQ(thrown.code, code) << limit;
    EXPECT_THAT(thrown.text, HasSubstr(text));
  }
}

// A tool that has children ask it, say.
TEST(Environment, WhoNeedsNoIdLeavesTheLauncherAlone) {
  const Pmi1Server server;
  EXPECT_EQ(identity(server.variables(1)).rank, 1);
  EXPECT_EQ(server.asked(), "");
}

// MPI in the same program closes it at its end, and what is opened next may get its number.
TEST(Environment, WhatTheLaunchersDescriptorHasBecomeIsLeftAlone) {
  Pmi1Server server;
  const Pmi1Server stranger;
  const auto number = [](const Pmi1Server& of) { return std::stoi(of.variables(1).at("PMI_FD")); };
  {
    const Environment environment(server.variables(1));
    const auto launcher = find_launcher(Deadline(60s));
    EXPECT_EQ(thrown_by([&] { launcher->agree("", Deadline(10ms)); }).code, ErrorCode::timeout);
    EXPECT_EQ(::dup2(number(stranger), number(server)), number(server));
    server.hang_up();
    EXPECT_EQ(thrown_by([&] { launcher->agree("", Deadline(10s)); }).code, ErrorCode::system);
  }
  EXPECT_EQ(stranger.asked(), "");
}

TEST(Environment, WhatRankZeroOffersIsAnIdOrAReason) {
  const auto id = reserve_id("");
  EXPECT_EQ(id_of(id.to_string()), id);
  const auto offer = offer_id("nosuch0", true, "", Deadline(10s));
  EXPECT_TRUE(offer.failure);
  const auto told = thrown_by([&] { id_of(offer.text); });
  EXPECT_EQ(told.code, ErrorCode::aborted);
  EXPECT_THAT(told.text, HasSubstr("\"nosuch0\" does not exist"));
  const Environment environment(Variables{});
  const auto unknown = offer_id("", false, "no-such-host.invalid", Deadline(60s));
  EXPECT_THAT(unknown.text, HasSubstr("TUTTI_INTERFACE names one: no address for host"));
  const auto lost = thrown_by([] { id_of(""); });
  EXPECT_EQ(lost.code, ErrorCode::system);
  EXPECT_THAT(lost.text,
              HasSubstr("the launcher did not hand on the unique id of rank 0; start the ranks by"));
}

// The launcher answers when all have come, be it after a rank's deadline: that rank has come all the same.
TEST(Environment, ALateAnswerOfALauncherIsTakenByTheNextCall) {
  const auto id = reserve_id("").to_string();
  for (const Rank rank : {0, 1}) {
    const Pmi1Server server;
    const Environment environment(server.variables(rank));
    {
      const auto launcher = find_launcher(Deadline(60s));
      const auto agree = [&](std::chrono::milliseconds timeout) {
        return launcher->agree("127.0.0.1", Deadline(timeout)).to_string();
      };
      for (const char* const late :
           {"cmd=response_to_init rc=0\n", "cmd=maxes vallen_max=1024\n", "cmd=my_kvsname kvsname=space\n"}) {
        EXPECT_EQ(thrown_by([&] { agree(50ms); }).code, ErrorCode::timeout);
        server.answer(late);
      }
      if (rank == 0) {
        EXPECT_EQ(thrown_by([&] { agree(50ms); }).code, ErrorCode::timeout);
        server.answer("cmd=put_result rc=0\ncmd=barr");
      }
      EXPECT_EQ(thrown_by([&] { agree(50ms); }).code, ErrorCode::timeout);
      server.answer(rank == 0 ? "ier_out\n" : "cmd=barrier_out\n");
      EXPECT_EQ(thrown_by([&] { agree(50ms); }).code, ErrorCode::timeout);
      server.answer("cmd=get_result rc=0 value=" + id + "\n");
      EXPECT_EQ(agree(10s), id);
      // A barrier that never ends keeps nobody from saying goodbye.
      if (rank == 0) server.answer("cmd=put_result rc=0\n");
      const auto thrown = thrown_by([&] { agree(50ms); });
      EXPECT_EQ(thrown.code, ErrorCode::timeout);
      EXPECT_THAT(thrown.text, HasSubstr("not all ranks asked for a communicator in time"));
      server.answer("cmd=finalize_ack\n");
    }
    const auto asked = server.asked();
    for (const char* const once : {"cmd=init ", "cmd=get_maxes\n", "cmd=get_my_kvsname\n", "cmd=finalize\n"})
      EXPECT_EQ(times_in(asked, once), 1) << asked;
    EXPECT_EQ(times_in(asked, "cmd=barrier_in\n"), 2) << asked;
    EXPECT_EQ(times_in(asked, "key=tutti-id-0"), rank == 0 ? 2 : 1) << "a put, a get";
    EXPECT_EQ(times_in(asked, "key=tutti-id-1"), rank == 0 ? 1 : 0) << "a put";
  }
}

TEST(Environment, WhatALauncherDidNotTakeInTimeIsSentByTheNextCall) {
  Pmi1Server server;
  server.be_full();
  const Environment environment(server.variables(1));
  const auto launcher = find_launcher(Deadline(60s));
  const auto agree = [&] { launcher->agree("", Deadline(50ms)); };
  EXPECT_THAT(thrown_by(agree).text, HasSubstr("\"cmd=init\" failed: the launcher reads nothing"));
  while (!server.asked().empty()) {
  }
  for (int i = 0; i < 2; ++i) EXPECT_THAT(thrown_by(agree).text, HasSubstr("was not answered in time"));
  EXPECT_EQ(times_in(server.asked(), "cmd=init "), 1);
  server.hang_up();
}

/// Lets one rank in and tells it nothing, until it goes.
void be_a_silent_hub(int listener, const Secret& secret) {
  const Deadline deadline(20s);
  if (!wait_for(listener, POLLIN, deadline)) return;
  Accepting arrival(accept_from(listener), secret, 20s);
  while (arrival.advance() == Accepting::State::pending) wait_for(arrival.fd(), POLLIN, deadline);
  const auto rank = arrival.take();
  std::array<std::byte, 4096> said{};
  while (receive_some(rank.get(), said) && wait_for(rank.get(), POLLIN, deadline)) {
  }
}

// Of which a rank whose launcher hands on the id late has less left for its group.
TEST(Environment, JoiningHasOneDeadline) {
  Child child([] {
    const auto listener = listen_at({"127.0.0.1", 0});
    const Secret secret{std::byte{1}};
    const auto id = make_id({local_endpoint(listener.get()), secret}).to_string();
    const Pmi1Server server;
    server.answer("cmd=response_to_init rc=0\ncmd=maxes vallen_max=1024\ncmd=my_kvsname kvsname=space\n");
    const Environment environment(server.variables(1));
    const std::jthread hub([&] { be_a_silent_hub(listener.get(), secret); });
    const std::jthread launcher([&] {
      server.await("cmd=barrier_in");
      std::this_thread::sleep_for(300ms);
      server.answer("cmd=barrier_out\ncmd=get_result rc=0 value=" + id + "\n");
    });
    const auto thrown = thrown_by([] { join_from_environment("", 4s); });
    const std::string before = "joining a group of 2 after ";
    const auto at = thrown.text.find(before);
    if (at == std::string::npos) return 1;
    return std::stoi(thrown.text.substr(at + before.size())) <= 3700 ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

/// Starts `size` processes with `common` and their rank; each makes two communicators from the environment.
void launch_twice(int size, const Variables& common, const char* rank_variable) {
  std::vector<Child> children;
  for (Rank rank = 0; rank < size; ++rank)
    children.emplace_back([&, rank] {
      const Environment environment(with(common, {{rank_variable, std::to_string(rank)}}));
      const auto id = launch_from_environment("", 10s).id;
      if (launch_from_environment("", 10s).id != id) return 1;  // not used yet
      const auto first = Session::join(id, rank, size, 10s);
      const auto launch = launch_from_environment("", 10s);
      if (launch.id != id || launch.rank != rank || launch.size != size) return 2;
      const auto second = Session::join(launch.id, rank, size, 10s);
      if (first->secret() == second->secret()) return 4;
      for (const auto& session : {first, second}) {
        const auto all = session->all_gather(bytes(std::to_string(rank)), 10s);
        for (int r = 0; r < size; ++r)
          if (all.at(static_cast<std::size_t>(r)) != bytes(std::to_string(r))) return 3;
        session->leave(5s);
      }
      return 0;
    });
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

std::string free_port(int below) {
  for (;;) {  // below: torchrun's port is one less than the one that must be free
    const auto port = read(reserve_id("")).endpoint.port;
    if (port > 1024) return std::to_string(port - below);
  }
}

TEST(Environment, TwoCommunicatorsOfTuttisOwnLauncher) {
  launch_twice(3, {{"TUTTI_SIZE", "3"}, {"TUTTI_ID", reserve_id("").to_string()}}, "TUTTI_RANK");
}

TEST(Environment, TwoCommunicatorsUnderTorchrun) {
  launch_twice(3, {{"WORLD_SIZE", "3"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", free_port(1)}}, "RANK");
}

TEST(Environment, TwoCommunicatorsUnderSlurm) {
  launch_twice(3,
               {{"SLURM_NTASKS", "3"},
                {"SLURM_STEP_ID", "0"},
                {"SLURM_JOB_ID", "77"},
                {"SLURM_STEP_NODELIST", "localhost"},
                {"TUTTI_PORT", free_port(0)}},
               "SLURM_PROCID");
}

TEST(Environment, ThreadsThatJoinAtOnceHaveGroupsOfTheirOwn) {
  constexpr int size = 3, threads = 4;
  const Variables job{{"TUTTI_SIZE", std::to_string(size)}, {"TUTTI_ID", reserve_id("").to_string()}};
  std::vector<Child> children;
  for (Rank rank = 0; rank < size; ++rank)
    children.emplace_back([&, rank] {
      const Environment environment(with(job, {{"TUTTI_RANK", std::to_string(rank)}}));
      std::atomic<int> met = 0;
      on_threads(threads, [&](int /*thread*/) {
        const auto session = join_from_environment("", 20s);
        const auto all = session->all_gather(bytes(std::to_string(rank)), 20s);
        if (all == std::vector<Bytes>{bytes("0"), bytes("1"), bytes("2")}) ++met;
        session->leave(5s);
      });
      return met == threads ? 0 : 1;
    });
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

// None knows of another's failure.
TEST(Environment, ARankThatFailsToFindAnIdFindsTheSameOneLater) {
  const Variables job{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "LOCALHOST"}, {"MASTER_PORT", "4"}};
  const auto secret = agreed(job, "lo").secret;
  Child child([&] {
    const Environment environment(job);
    const auto thrown = thrown_by([] { launch_from_environment("no such interface", 1s); });
    if (thrown.code != ErrorCode::invalid_argument) return 1;
    return read(launch_from_environment("lo", 1s).id).secret == secret ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

/// Rank 1 of `job` tries in vain before rank 0 tries for the first time.
void expect_to_meet_at_another_try(const Variables& job, const char* rank_variable) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const FileDescriptor until(ends[0]);
  FileDescriptor failed(ends[1]);
  Child one([&] {
    const Environment environment(with(job, {{rank_variable, "1"}}));
    for (int i = 0; i < 2; ++i) {
      const auto launch = launch_from_environment("", 10s);
      const auto thrown = thrown_by([&] { Session::join(launch.id, 1, 2, 100ms); });
      if (thrown.code != ErrorCode::timeout) return 1;
    }
    failed.reset();
    Session::join(launch_from_environment("", 10s).id, 1, 2, 20s)->leave(5s);
    return 0;
  });
  Child zero([&] {
    const Environment environment(with(job, {{rank_variable, "0"}}));
    failed.reset();
    char none = 0;
    if (::read(until.get(), &none, 1) != 0) return 1;
    Session::join(launch_from_environment("", 10s).id, 0, 2, 20s)->leave(5s);
    return 0;
  });
  failed.reset();
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(zero.wait(), 0);
}

TEST(Environment, RanksMeetHoweverOftenEachHasTried) {
  expect_to_meet_at_another_try(
      {{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", free_port(1)}}, "RANK");
  expect_to_meet_at_another_try({{"SLURM_NTASKS", "2"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_JOB_ID", "78"},
                                 {"SLURM_STEP_NODELIST", "localhost"},
                                 {"TUTTI_PORT", free_port(0)}},
                                "SLURM_PROCID");
  expect_to_meet_at_another_try({{"TUTTI_SIZE", "2"}, {"TUTTI_ID", reserve_id("").to_string()}},
                                "TUTTI_RANK");
}

TEST(Environment, ANamedMasterThatNeverComesIsATimeout) {
  const Environment environment(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", free_port(1)}});
  const auto id = find_launcher(Deadline(60s))->agree("", Deadline(60s));
  const auto thrown = thrown_by([&] { Session::join(id, 1, 2, 100ms); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_THAT(thrown.ranks, testing::ElementsAre(0));
  EXPECT_THAT(thrown.text,
              HasSubstr("MASTER_ADDR=localhost is " + read(id).endpoint.address + ", this host"));
}

TEST(Environment, AMasterThatNamesNoHostIsNamed) {
  for (const auto& [master, code, why] :
       {std::tuple("no-such-host.invalid", ErrorCode::system, "no address for host \"no-such-host.invalid\""),
        {"0.0.0.0", ErrorCode::invalid_argument, "\"0.0.0.0\" is no numeric address"}}) {
    const auto thrown = thrown_by([&, name = master] { agreed(with(torchrun, {{"MASTER_ADDR", name}})); });
    EXPECT_EQ(thrown.code, code);
    EXPECT_THAT(thrown.text, HasSubstr("MASTER_ADDR must name rank 0's host as every rank reaches it: "));
    EXPECT_THAT(thrown.text, HasSubstr(why));
  }
  const auto thrown = thrown_by([] {
    agreed(with(slurm, {{"SLURM_STEP_NODELIST", "no-such-host.invalid"}}));
  });
  EXPECT_THAT(thrown.text, HasSubstr("SLURM_STEP_NODELIST must name rank 0's host"));
}

}  // namespace
}  // namespace tutti::bootstrap::test
