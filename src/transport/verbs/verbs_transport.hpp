/// \file
/// FIFOs over RDMA, between ranks whose hosts have devices of the same kind.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "transport/tcp/listener.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/link.hpp"

namespace tutti::transport::verbs {

class VerbsTransport final : public Transport {
 public:
  /// Collective: exchanges addresses. A rank without a usable device takes part, and reaches nobody. Throws
  /// Error(invalid_argument) for options that name what does not exist. `group.communicator` below 2^48.
  VerbsTransport(Group group, std::shared_ptr<tcp::TcpListener> listener, const bootstrap::Secret& secret,
                 const VerbsOptions& options = VerbsOptions::from_environment(),
                 std::shared_ptr<Verbs> verbs = real_verbs());
  /// Delivers what was published, within `linger`.
  ~VerbsTransport() override;
  VerbsTransport(const VerbsTransport&) = delete;
  VerbsTransport& operator=(const VerbsTransport&) = delete;

  [[nodiscard]] std::string_view name() const override { return "verbs"; }
  [[nodiscard]] bool reaches(Rank peer) const override { return rails_to(peer) > 0; }
  [[nodiscard]] std::string explain(Rank peer) const override;
  [[nodiscard]] std::size_t max_message_bytes() const override { return shared_.agreed.message_bytes; }
  [[nodiscard]] double port_rate() const override;
  Sender& sender(Rank peer, int channel) override;
  Receiver& receiver(Rank peer, int channel) override;
  /// Over the first rail. iWARP has no windows.
  std::unique_ptr<RemoteAccess> expose(const Exposure& exposure) override;
  void progress() override;
  [[nodiscard]] bool backlogged() const override;
  void prepare_wait() override { changes_before_wait_ = changes(); }
  void wait(std::chrono::microseconds longest) override;
  [[nodiscard]] bool add_waits(std::vector<pollfd>& waits) override;
  void end_wait(std::span<const pollfd> waits) override;
  [[nodiscard]] Traffic traffic() const override;

  /// May outlive the transport. What is under way from the memory keeps it registered for so long.
  std::shared_ptr<void> register_memory(const std::byte* data, std::size_t bytes) override;
  std::unique_ptr<RegisteredDeviceMemory> register_device_memory(const DeviceMemory& memory) override;
  /// Immediates that came without a credit: always 0.
  [[nodiscard]] std::uint64_t credits_violated() const { return shared_.credits_violated; }

  static constexpr std::chrono::milliseconds linger{1000};

 private:
  /// What a rank says about itself when transports are made.
  struct Contact {
    struct RailContact {
      LinkLayer layer{};
      bool roce_v2 = false;
      std::uint16_t partition = 0;  ///< the key; 0: not known
      std::uint16_t mtu = 0;        ///< bytes; a path has that of the end with less
      std::array<std::uint8_t, 16> gid{};
    };
    std::uint16_t port = 0;
    std::uint16_t rails = 0;
    std::uint32_t message_bytes = 0;
    std::uint32_t stripe_from = 0;
    std::array<RailContact, max_rails> rail;
  };
  struct Peer {
    Contact contact;
    std::string address;
    int rails = 0;  ///< that lead there
    std::unique_ptr<Link> link;
  };

  void open_rails();
  void exchange();
  [[nodiscard]] Contact contact() const;
  [[nodiscard]] static bool compatible(const Contact::RailContact& a, const Contact::RailContact& b);
  /// Why no rail leads to a rank that has some, the first one in the partition with this key.
  [[nodiscard]] std::string explain_apart(Rank peer, std::uint16_t partition) const;
  [[nodiscard]] int rails_to(Rank peer) const { return peers_.at(static_cast<std::size_t>(peer)).rails; }
  Link& link(Rank peer);
  void connect(Rank peer);
  void accept();
  bool poll();
  bool take_completions();
  bool look_around();
  /// Another number when `poll` has moved something since; rarely, where connections were closed, the same.
  [[nodiscard]] std::uint64_t changes() const;
  [[nodiscard]] int most_idle_links() const;
  void rest_idle();
  void take_events(std::size_t rail);
  void fail_by(std::size_t rail, const DeviceEvents::Event& event);
  bool take_outcomes(std::size_t rail);
  void deliver();

  Group group_;
  std::uint64_t generation_ = fork_generation();
  std::shared_ptr<tcp::TcpListener> listener_;
  std::shared_ptr<tcp::Inbox> inbox_;
  bootstrap::Secret secret_;
  Shared shared_;
  std::string why_none_;
  std::exception_ptr wrong_options_;
  std::vector<Peer> peers_;
  std::uint64_t inbox_seen_ = 0;
  Clock::time_point next_look_;
  std::uint64_t looks_that_moved_ = 0;
  std::optional<std::uint64_t> changes_before_wait_;  ///< since `prepare_wait`
  std::vector<pollfd> waits_;
};

}  // namespace tutti::transport::verbs
