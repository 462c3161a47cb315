// The network interface that a program asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "communicator/ranks.hpp"
#include "topology/interface.hpp"

namespace tutti::test {
namespace {

using bootstrap::test::on_threads;
using testing::HasSubstr;

TEST(Interface, OneThatDoesNotExistIsRefusedAlsoWhereNoneIsNeeded) {
  Options options = over("", 5s);
  options.interface = "nosuch0";
  for (const int size : {1, 2}) {
    const auto thrown = thrown_by([&] { Communicator(UniqueId::create(), 0, size, options); });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("\"nosuch0\" does not exist; this host has: "));
  }
}

// The ranks meet at the loopback, by the id.
TEST(Interface, DataGoesWhereItIsAskedTo) {
  const auto all = topology::interfaces();
  const auto other = std::ranges::find_if(all, [](const auto& one) {
    return one.up && !one.loopback && one.addresses.front().find('%') == std::string::npos;
  });
  if (other == all.end()) GTEST_SKIP() << "this host has a loopback only";
  const auto id = UniqueId::create("127.0.0.1");
  on_threads(2, [&](Rank rank) {
    Options options = over("tcp");
    options.interface = other->name;
    Communicator comm(id, rank, 2, options);
    float one = 1;
    comm.all_reduce(std::span(&one, 1));
    EXPECT_EQ(one, 2);
    const Call call{
        .operation = Operation::all_reduce, .type = DataType::float32, .in = &one, .out = &one, .count = 1};
    EXPECT_THAT(comm.explain(call), HasSubstr("-> " + other->addresses.front()));
    comm.barrier();
  });
}

}  // namespace
}  // namespace tutti::test
