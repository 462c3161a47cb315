/// \file
/// Watches over kernels that run: brings them the aborts and deaths that the host hears of, and tells the
/// others what they report. One thread, which wakes ten times a second.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <tutti/error.hpp>

#include "gpu/setting.hpp"

namespace tutti::gpu {

namespace device {
struct Control;
struct Report;
}  // namespace device

class Sentry {
 public:
  /// Both outlive it. Throws Error(system) where there can be no more threads.
  Sentry(const Setting& setting, device::Control& control);
  ~Sentry();
  Sentry(const Sentry&) = delete;
  Sentry& operator=(const Sentry&) = delete;

  /// A launch has been enqueued: its number, for reports.
  std::uint64_t announce_launch(const std::string& what);
  /// Throws what a kernel reported, or why those to come would give up.
  void check();
  /// Nothing can be enqueued any more, for this reason, and kernels that wait give up. From any thread.
  void fail(const Error& error);
  /// Makes kernels that wait give up.
  void stop(const Error& why);

 private:
  void watch();
  void look();
  [[nodiscard]] Error error_of(const device::Report& report);

  const Setting& setting_;
  device::Control& control_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  bool told_ = false;
  std::optional<Error> stopped_because_;
  struct Launched {
    std::uint64_t number = 0;
    std::string what;
  };
  std::array<Launched, 64> launches_;  ///< the last ones, by number; graphs repeat earlier ones
  std::uint64_t launched_ = 0;
  std::optional<Error> failure_;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tutti::gpu
