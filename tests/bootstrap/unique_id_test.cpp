#include <tutti/unique_id.hpp>

#include <gmock/gmock.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/system_error.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"
#include "topology/interface.hpp"

namespace tutti::bootstrap::test {
namespace {

TEST(UniqueId, TextGoesThereAndBack) {
  for (const char* interface : {"", "127.0.0.1", "::1"}) {
    const auto id = UniqueId::create(interface);
    const auto text = id.to_string();
    EXPECT_EQ(text.find_first_of(" \t\n"), std::string::npos);
    EXPECT_EQ(UniqueId::parse(text), id);
  }
}

TEST(UniqueId, DefaultIsTheInterfaceOfTheDefaultRoute) {
  std::string expected;
  try {
    expected = topology::default_route();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(read(UniqueId::create("default")).endpoint.address, expected);
}

TEST(UniqueId, HoldsItsEndpointAndSecret) {
  Rendezvous in{{"fd00::17", 4321}, {std::byte{9}, std::byte{8}}, 77};
  const auto out = read(make_id(in));
  EXPECT_EQ(out.endpoint.address, "fd00::17");
  EXPECT_EQ(out.endpoint.port, 4321);
  EXPECT_EQ(out.secret, in.secret);
  EXPECT_EQ(out.loopback, 77U);
}

TEST(UniqueId, AddressesThatNameNoHostAreRefused) {
  for (const char* const address : {"0.0.0.0", "::", "fe80::1", "febf::1", "fe80::1%lo", "localhost", ""}) {
    const auto thrown = thrown_by([&] { make_id({{address, 4321}, {}}); });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << address;
    EXPECT_THAT(thrown.text, testing::HasSubstr("\"" + std::string(address) + "\" is no numeric address"));
  }
}

TEST(UniqueId, NoTwoAreAlike) {
  const auto a = UniqueId::create(), b = UniqueId::create();
  EXPECT_NE(read(a).secret, read(b).secret);
  EXPECT_NE(read(a).endpoint.port, read(b).endpoint.port);
}

TEST(UniqueId, DamagedTextIsRefusedAndNotRepeated) {
  const auto text = UniqueId::create().to_string();
  for (const auto& bad :
       {std::string(), std::string("tutti-"), text.substr(1), text.substr(0, text.size() - 1), text + "0",
        text.substr(0, text.size() - 1) + "g", text.substr(0, text.size() - 1) + "1", " " + text,
        "tutti-" + std::string(2 * UniqueId::size, '0')}) {
    const auto thrown = thrown_by([&] { UniqueId::parse(bad); });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << bad;
    EXPECT_EQ(thrown.text.find(text.substr(50, 30)), std::string::npos)
        << "a secret does not belong into logs";
  }
}

TEST(UniqueId, TextSaysWhatIsWrongWithIt) {
  const auto text = UniqueId::create().to_string();
  auto mistyped = text;
  mistyped[9] = 'o';
  for (const auto& [bad, why] :
       {std::pair(mistyped, "but character 10 is none"), std::pair(text + "0", "but got 135 characters"),
        std::pair(text.substr(1), "but it begins with something else")})
    EXPECT_THAT(thrown_by([&, &wrong = bad] { UniqueId::parse(wrong); }).text, testing::EndsWith(why));
}

TEST(UniqueId, UnknownInterfacesAreRefused) {
  const auto thrown = thrown_by([] { static_cast<void>(UniqueId::create("nosuch0")); });
  EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
  EXPECT_THAT(thrown.text, testing::HasSubstr("\"nosuch0\" does not exist"));
}

TEST(UniqueId, AReservedOneIsListenedAtByWhoeverJoinsAsRankZero) {
  const auto id = reserve_id("::1");
  EXPECT_FALSE(try_connect(read(id).endpoint, Deadline(1s)));
  std::vector<SessionPointer> sessions(2);
  on_threads(2,
             [&](Rank rank) { sessions[static_cast<std::size_t>(rank)] = Session::join(id, rank, 2, 5s); });
  leave_all(sessions);
}

// As by a rank that calls before rank 0 listens, and is given that port for its own end.
TEST(UniqueId, APortThatIsTakenForAMomentIsWaitedFor) {
  const auto id = reserve_id("");
  auto taken = listen_at(read(id).endpoint);
  const std::jthread leaves([&] {
    std::this_thread::sleep_for(100ms);
    taken = {};
  });
  EXPECT_TRUE(take_listener(id));
}

TEST(UniqueId, APortThatStaysTakenIsAnErrorInTime) {
  const auto id = reserve_id("");
  const auto taken = listen_at(read(id).endpoint);
  const auto start = Clock::now();
  const auto thrown = thrown_by([&] { Session::join(id, 0, 2, 50ms); });
  EXPECT_LT(Clock::now() - start, 1s) << "what joins has a deadline of its own";
  EXPECT_EQ(thrown.code, ErrorCode::system);
  EXPECT_THAT(thrown.text, testing::HasSubstr("another program has the port: set TUTTI_PORT"));
  EXPECT_THAT(thrown.text, testing::HasSubstr("another process is rank 0, too: give every process its own"));
  EXPECT_EQ(thrown.text.find("tutti: ", 1), std::string::npos) << thrown.text;
}

TEST(UniqueId, AnAddressOfAnotherHostIsAnError) {
  const auto id = make_id({{"192.0.2.77", 4321}, {}});
  const auto thrown = thrown_by([&] { take_listener(id); });
  EXPECT_EQ(thrown.code, ErrorCode::system);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{0});
  EXPECT_THAT(thrown.text,
              testing::HasSubstr("MASTER_ADDR, or the first of SLURM_STEP_NODELIST, must name rank 0's"));
}

TEST(SystemError, NamesTheLimitThatLeavesNoDescriptor) {
  EXPECT_THAT(SystemError("socketpair", EMFILE).what(), testing::HasSubstr("socketpair: "));
  EXPECT_THAT(SystemError("socketpair", EMFILE).what(), testing::HasSubstr("(ulimit -n)"));
  EXPECT_THAT(SystemError("socketpair", ENFILE).what(), testing::HasSubstr("(sysctl fs.file-max)"));
}

TEST(UniqueId, APortThatIsTakenIsKnownByItsErrno) {
  const auto taken = listen_at({"127.0.0.1", 0});
  try {
    listen_at(local_endpoint(taken.get()));
    FAIL() << "the port was given twice";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.number(), EADDRINUSE) << error.what();
  }
}

}  // namespace
}  // namespace tutti::bootstrap::test
