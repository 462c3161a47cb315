#include "faulty.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include <tutti/error.hpp>

namespace tutti::transport::testing {

namespace {

constexpr int faulty_message = 2;  // the third one: the fault is no matter of the first use

/// A message that is sent later than it should.
struct Held {
  const std::byte* data;  ///< the caller's; or `copy`
  std::vector<std::byte> copy;
  std::size_t bytes;
  Tag tag;
};

class FaultySender final : public Sender {
 public:
  FaultySender(Sender& inner, Fault fault, std::size_t max)
      : inner_(inner), fault_(fault), room_(max), other_room_(max) {}

  std::byte* try_reserve(std::size_t bytes) override {
    if (fault_ == Fault::swallows_without_end) return room_.data();
    if (lacks_room() || inner_.try_reserve(bytes) == nullptr) return nullptr;
    if (fault_ == Fault::moves_reserved_room) std::swap(room_, other_room_);
    return room_.data();
  }
  void publish(std::size_t bytes, Tag tag) override { try_send(room_.data(), bytes, tag, false); }

  bool try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) override {
    if (lacks_room()) return false;
    const bool faulty = sent_ == faulty_message;
    const bool late =
        (fault_ == Fault::copies_late && !stable) || (fault_ == Fault::flushes_in_name && stable);
    deliver();
    if (fault_ == Fault::swallows_without_end) {
      held_.push_back({nullptr, {data, data + bytes}, bytes, tag});
    } else if (late) {
      if (!held_.empty()) return false;
      held_.push_back({data, {}, bytes, tag});
    } else if (fault_ == Fault::forgets_on_leaving || (fault_ == Fault::swaps_two_messages && faulty)) {
      if (!held_.empty()) return false;
      held_.push_back({nullptr, {data, data + bytes}, bytes, tag});
    } else if (fault_ == Fault::corrupts_a_byte && bytes > 0 && faulty) {
      std::vector<std::byte> copy(data, data + bytes);
      copy.back() ^= std::byte{1};
      if (!inner_.try_send(copy.data(), bytes, tag, false)) return false;
    } else if (fault_ == Fault::drops_a_message && faulty) {
      // That is the fault.
    } else {
      if (!inner_.try_send(data, bytes, tag, stable)) return false;
      if (fault_ == Fault::doubles_a_message && faulty) inner_.try_send(data, bytes, tag, false);
    }
    ++sent_;
    return true;
  }

  bool flushed() override {
    if (fault_ == Fault::flushes_in_name) return true;
    deliver();
    return held_.empty() && inner_.flushed();
  }

  /// Sends what is held, except the older one of two messages that change places.
  void deliver() {
    const bool swapping = fault_ == Fault::swaps_two_messages && sent_ < faulty_message + 2;
    while (!held_.empty() && !swapping) {
      const auto& message = held_.front();
      const std::byte* data = message.data != nullptr ? message.data : message.copy.data();
      if (!inner_.try_send(data, message.bytes, message.tag, false)) return;
      held_.pop_front();
    }
  }

 private:
  bool lacks_room() {
    return fault_ == Fault::lacks_a_credit && sent_ == channel_credits - 1 && refusals_++ < 10;
  }

  Sender& inner_;
  Fault fault_;
  std::vector<std::byte> room_, other_room_;
  std::deque<Held> held_;
  int sent_ = 0;
  int refusals_ = 0;
};

class FaultyReceiver final : public Receiver {
 public:
  FaultyReceiver(Receiver& inner, Fault fault) : inner_(inner), fault_(fault) {}

  const std::byte* try_acquire(std::size_t bytes, Tag tag) override {
    const std::byte* view = nullptr;
    if (!guarded([&] { return (view = inner_.try_acquire(bytes, tag)) != nullptr; })) return nullptr;
    if (view == nullptr) return copies_.front().data();  // a Mismatch was ignored
    if (fault_ != Fault::moves_views && fault_ != Fault::changes_views) return view;
    auto& copy = copies_.at(fault_ == Fault::moves_views ? calls_ % 2 : 0);
    copy.assign(view, view + bytes);
    copy.resize(bytes + 1);  // never null
    if (++calls_ > 16 && fault_ == Fault::changes_views && bytes > 0) copy.front() ^= std::byte{1};
    return copy.data();
  }
  void release() override { inner_.release(); }
  bool try_receive(std::byte* into, std::size_t bytes, Tag tag) override {
    if (!guarded([&] { return inner_.try_receive(into, bytes, tag); })) return false;
    if (fault_ == Fault::writes_too_far) into[bytes] = std::byte{0};
    return true;
  }

 private:
  template <class Attempt>
  bool guarded(Attempt attempt) {
    try {
      return attempt();
    } catch (const Mismatch&) {
      if (fault_ != Fault::ignores_tags) throw;
      copies_.front().resize(1);
      return true;
    } catch (const Error&) {
      if (fault_ != Fault::ignores_loss) throw;
      return false;
    }
  }

  Receiver& inner_;
  Fault fault_;
  std::array<std::vector<std::byte>, 2> copies_;
  std::size_t calls_ = 0;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, Fault fault) : inner_(std::move(inner)), fault_(fault) {}

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] bool reaches(Rank peer) const override { return inner_->reaches(peer); }
  [[nodiscard]] std::string explain(Rank peer) const override { return inner_->explain(peer); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return inner_->max_message_bytes(); }
  Sender& sender(Rank peer, int channel) override {
    auto& sender = senders_[{peer, channel}];
    if (!sender)
      sender = std::make_unique<FaultySender>(inner_->sender(peer, channel), fault_, max_message_bytes());
    return *sender;
  }
  Receiver& receiver(Rank peer, int channel) override {
    auto& receiver = receivers_[{peer, channel}];
    if (!receiver) receiver = std::make_unique<FaultyReceiver>(inner_->receiver(peer, channel), fault_);
    return *receiver;
  }
  void progress() override {
    // Messages held for a fault go out now, but memory that is read too late is read even later.
    if (++polls_ % 4 == 0)
      for (auto& [place, sender] : senders_) sender->deliver();
    inner_->progress();
  }
  void prepare_wait() override { inner_->prepare_wait(); }
  void cancel_wait() override { inner_->cancel_wait(); }
  void wait(std::chrono::microseconds longest) override {
    if (fault_ == Fault::sleeps_through)
      ::poll(nullptr, 0, static_cast<int>(longest.count() / 1000));
    else
      inner_->wait(longest);
  }
  [[nodiscard]] bool add_waits(std::vector<pollfd>& waits) override {
    return fault_ == Fault::sleeps_through || inner_->add_waits(waits);
  }
  void end_wait(std::span<const pollfd> waits) override {
    if (fault_ != Fault::sleeps_through) inner_->end_wait(waits);
  }
  [[nodiscard]] Traffic traffic() const override {
    auto traffic = inner_->traffic();
    if (fault_ == Fault::counts_wrongly) traffic.bytes_received += 1;
    return traffic;
  }

 private:
  std::unique_ptr<Transport> inner_;
  Fault fault_;
  std::map<std::pair<Rank, int>, std::unique_ptr<FaultySender>> senders_;
  std::map<std::pair<Rank, int>, std::unique_ptr<FaultyReceiver>> receivers_;
  int polls_ = 0;
};

}  // namespace

Subject with_fault(const Subject& subject, Fault fault) {
  Subject faulty = subject;
  faulty.patience = std::chrono::milliseconds(1500);
  faulty.make = [make = subject.make, fault](int ranks) {
    Transports transports = make(ranks);
    for (auto& transport : transports)
      transport = std::make_unique<FaultyTransport>(std::move(transport), fault);
    return transports;
  };
  return faulty;
}

}  // namespace tutti::transport::testing
