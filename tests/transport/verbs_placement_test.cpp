// Bytes that go from registered memory into registered memory, ahead of their message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <span>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "thrown.hpp"
#include "verbs_faulty.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

using test::thrown_by;

constexpr std::size_t room = 16 * 4096;
constexpr Tag note_tag = 77;

/// What a rank has registered; no device's.
class Ground {
 public:
  explicit Ground(Transport& transport)
      : pages_(static_cast<std::byte*>(std::aligned_alloc(4096, room)), &std::free) {
    std::fill_n(pages_.get(), room, std::byte{0});
    registered = transport.register_device_memory({pages_.get(), room, []() -> FileDescriptor {
                                                     throw Error(ErrorCode::unsupported, "there is none");
                                                   }});
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {pages_.get(), room}; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> pages_;

 public:
  std::unique_ptr<RegisteredDeviceMemory> registered;
};

struct Case {
  int rails = 1;
  std::uint32_t longest_message = 1 << 30;
};

class VerbsPlacement : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Fake, VerbsPlacement, ::testing::Values(Case{1}, Case{2}, Case{1, 2000}),
                         [](const auto& one) {
                           return std::to_string(one.param.rails) + "_rails_" +
                                  std::to_string(one.param.longest_message);
                         });

TEST_P(VerbsPlacement, BytesAreThereWhenTheirMessageIs) {
  FakeDevice device;
  device.longest_message = GetParam().longest_message;
  const Transports ranks = fake_ranks(2, GetParam().rails, device);
  const Ground from(*ranks[0]), to(*ranks[1]);
  EXPECT_EQ(to.registered->means(), "nvidia-peermem");
  Sender& sender = ranks[0]->sender(1, 0);
  Receiver& receiver = ranks[1]->receiver(0, 0);
  // More than there are credits, before the peer takes any; each into a part of its own.
  constexpr std::size_t messages = 40, bytes = 1501;
  std::size_t sent = 0, received = 0;
  eventually(ranks, [&] {
    if (sent < messages) {
      const std::size_t at = sent * bytes;
      std::fill_n(from.bytes().data() + at, bytes, static_cast<std::byte>(sent + 1));
      if (sender.try_place(
              {from.registered.get(), from.bytes().data() + at, bytes, to.registered->address(), at},
              reinterpret_cast<const std::byte*>(&sent), sizeof sent, note_tag)) {
        ++sent;
        return false;
      }
    }
    std::size_t note = messages;
    if (receiver.try_receive(reinterpret_cast<std::byte*>(&note), sizeof note, note_tag)) {
      EXPECT_EQ(note, received);
      for (const std::byte one : to.bytes().subspan(note * bytes, bytes))
        EXPECT_EQ(one, static_cast<std::byte>(note + 1));
      ++received;
    }
    return received == messages;
  });
  EXPECT_EQ(received, messages);
  EXPECT_TRUE(eventually(ranks, [&] { return sender.flushed(); }));
}

TEST(VerbsPlacementFaults, OutsideOfWhatThePeerRegisteredIsRefused) {
  const Transports ranks = fake_ranks(2);
  const Ground from(*ranks[0]), to(*ranks[1]);
  Sender& sender = ranks[0]->sender(1, 0);
  Receiver& receiver = ranks[1]->receiver(0, 0);
  ASSERT_TRUE(sender.try_place(
      {from.registered.get(), from.bytes().data(), 4096, to.registered->address(), room - 4095}, nullptr, 0,
      note_tag));
  const Deadline deadline(std::chrono::seconds(20));
  const auto error = thrown_by([&] {
    while (!deadline.passed()) {
      EXPECT_FALSE(receiver.try_receive(nullptr, 0, note_tag));
      static_cast<void>(sender.flushed());
    }
  });
  EXPECT_THAT(error.text, ::testing::HasSubstr("remote access error"));
  EXPECT_EQ(to.bytes().back(), std::byte{0});
}

TEST(VerbsPlacementFaults, MemoryThatNoDeviceReachesIsNamed) {
  auto faults = std::make_shared<VerbsFaults>();
  const auto faulty = std::make_shared<FaultyVerbs>(fake_verbs(fabric_for(1, 1)), faults);
  const Transports ranks = verbs_ranks(1, same(faulty));
  faults->register_error = EFAULT;
  const auto error = thrown_by([&] { const Ground refused(*ranks[0]); });
  EXPECT_EQ(error.code, ErrorCode::unsupported);
  EXPECT_THAT(error.text,
              ::testing::HasSubstr("by dma-buf: there is none; by nvidia-peermem: Bad address (modprobe"));
}

}  // namespace

}  // namespace tutti::transport::testing
