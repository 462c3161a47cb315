/// \file
/// One class for each way to be started.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "base/deadline.hpp"
#include "bootstrap/environment.hpp"

namespace tutti::bootstrap {

/// A launcher that started this process.
class Launcher {
 public:
  virtual ~Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  /// Who this process is; without an id.
  [[nodiscard]] const Launch& identity() const { return identity_; }
  /// An id to meet by. Where ranks tell each other ids it is the job's next one, and asking for it is
  /// collective: what a deadline cut off goes on in the next call, since others may have gone on meanwhile.
  /// Where each rank finds it by itself it is always the same. Throws as launch_from_environment.
  virtual UniqueId agree(const std::string& interface, const Deadline& deadline) = 0;

 protected:
  explicit Launcher(Launch identity);  ///< throws Error(invalid_argument) when ranks and sizes make no sense
  [[nodiscard]] bool one_host() const { return identity_.local_size == identity_.size; }

 private:
  Launch identity_;
};

/// The local rank and size in these two variables. A local rank alone is passed over: it does not say that
/// others are on this host, and some who set torchrun's variables by hand leave LOCAL_WORLD_SIZE out.
void read_local(Launch& identity, const char* rank, const char* size);

/// nullptr: this process was not started that way. Throw as launch_from_environment. One thread at a time
/// calls them: what the deadline cuts off goes on in its next call.
std::unique_ptr<Launcher> find_tutti();
std::unique_ptr<Launcher> find_pmix(const Deadline& deadline);
std::unique_ptr<Launcher> find_pmi1();
std::unique_ptr<Launcher> find_torchrun();
std::unique_ptr<Launcher> find_slurm();
/// The first of these, torchrun itself before those that have started it; a launcher of one rank if there is
/// none.
std::unique_ptr<Launcher> find_launcher(const Deadline& deadline);

/// What to do about a launcher that does not hand on ids.
inline constexpr const char* use_another =
    "start the ranks by another launcher, or with TUTTI_RANK, TUTTI_SIZE and TUTTI_ID";

/// What rank 0 hands on to the others by its launcher.
struct Offer {
  std::string text;            ///< an id, or why there is none: the others wait for one of them
  std::exception_ptr failure;  ///< the same reason, for rank 0 itself; else empty
};
/// `other_host`: one that must be able to connect, by name or address; empty: unknown, then the default route
/// decides.
Offer offer_id(const std::string& interface, bool one_host, const std::string& other_host,
               const Deadline& deadline);
/// The id in the text of an offer. Throws Error(aborted) with the reason where there is none, Error(system)
/// where the launcher has lost it: then the text is empty.
UniqueId id_of(const std::string& offer);

}  // namespace tutti::bootstrap
