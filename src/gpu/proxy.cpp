#include "gpu/proxy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/deadline.hpp"
#include "base/quiet_thread.hpp"
#include "gpu/carrier.hpp"

namespace tutti::gpu {

namespace {

using namespace std::chrono_literals;

// After what was last moved: first only other threads are let by, then it naps, then it sleeps longer.
constexpr auto yield_for = 50us;
constexpr auto nap_for = 20ms;
constexpr auto nap = 20us, sleep = 500us;

}  // namespace

Proxy::Proxy(Network& network, Device device, const device::Mailbox& layout, const std::vector<Line>& lines,
             std::function<void(const Error&)> failed)
    : device_(std::move(device)), failed_(std::move(failed)) {
  for (const Line& line : lines) {
    transport::Transport& transport = network.to(line.peer);
    if (std::find(transports_.begin(), transports_.end(), &transport) == transports_.end())
      transports_.push_back(&transport);
    const int carriers = line.direct != nullptr ? direct_carriers : 1;
    for (int which = 0; which < carriers; ++which)
      carriers_.push_back(std::make_unique<Carrier>(transport, device_, layout, line, which, carriers));
  }
  thread_ = quiet_thread([this] { run(); });
}

Proxy::~Proxy() {
  over_ = true;
  wake();
  thread_->join();
}

void Proxy::wake() {
  {
    const std::scoped_lock lock(mutex_);
    wanted_ = true;
  }
  woken_.notify_one();
}

bool Proxy::move() {
  bool moved = false;
  Rank peer = -1;
  try {
    for (const auto& carrier : carriers_) {
      peer = carrier->peer();
      moved = carrier->send() || moved;
      moved = carrier->receive() || moved;
    }
    for (transport::Transport* transport : transports_) transport->progress();
  } catch (const transport::Mismatch&) {
    throw Error(ErrorCode::mismatch, fmt::format("rank {} sent what no GPU of this version sends", peer),
                {peer});
  }
  return moved;
}

void Proxy::work() {
  auto last = Clock::now();
  device_.api->set_device(device_.number);
  while (!over_) {
    if (move()) {
      last = Clock::now();
      continue;
    }
    const auto idle = Clock::now() - last;
    if (idle < yield_for) {
      std::this_thread::yield();
      continue;
    }
    std::unique_lock lock(mutex_);
    if (woken_.wait_for(lock, idle < nap_for ? nap : sleep, [this] { return std::exchange(wanted_, false); }))
      last = Clock::now();
  }
}

void Proxy::run() {
  try {
    try {
      work();
    } catch (const Error& error) {
      failed_(error);
    } catch (const std::exception& error) {
      failed_(Error(ErrorCode::system, error.what()));
    }
  } catch (const std::exception&) {
    // No memory to say why. Kernels that wait for what does not come give up at their deadline.
  }
}

}  // namespace tutti::gpu
