// PMIx: Open MPI's mpirun, PRRTE, srun --mpi=pmix. https://pmix.github.io/standard
#include <tutti/error.hpp>

#include "bootstrap/launcher.hpp"
#include "bootstrap/variables.hpp"

#ifdef TUTTI_HAVE_PMIX

#include <pmix.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <utility>

namespace tutti::bootstrap {
namespace {

void check(pmix_status_t status, const std::string& what, const char* remedy = "") {
  if (status == PMIX_SUCCESS) return;
  throw Error(status == PMIX_ERR_TIMEOUT ? ErrorCode::timeout : ErrorCode::system,
              "PMIx: " + what + ": " + ::PMIx_Error_string(status) + remedy);
}

/// PMIx counts its users in a process; the program's MPI may be another one.
class Client {
 public:
  Client() {
    check(::PMIx_Init(&self_, nullptr, 0), "PMIx_Init",
          "; if no launcher left PMIX_NAMESPACE and PMIX_RANK for this process, unset them");
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::PMIx_Finalize(nullptr, 0); }

  [[nodiscard]] const pmix_proc_t& self() const { return self_; }
  [[nodiscard]] pmix_proc_t proc(pmix_rank_t rank) const {
    pmix_proc_t other = self_;
    other.rank = rank;
    return other;
  }

 private:
  pmix_proc_t self_{};
};

using Value = std::unique_ptr<pmix_value_t, void (*)(pmix_value_t*)>;

/// Null when the server does not know.
Value get(const pmix_proc_t& proc, const char* key, int timeout_s = 0) {
  pmix_info_t info{};
  std::strncpy(info.key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
  info.value.type = PMIX_INT;
  info.value.data.integer = timeout_s;
  pmix_value_t* value = nullptr;
  const bool known = ::PMIx_Get(&proc, key, &info, timeout_s > 0 ? 1 : 0, &value) == PMIX_SUCCESS;
  return {known ? value : nullptr, [](pmix_value_t* v) { PMIX_VALUE_RELEASE(v); }};
}

int get_int(const pmix_proc_t& proc, const char* key, int otherwise) {
  const auto value = get(proc, key);
  if (!value) return otherwise;
  switch (value->type) {
    case PMIX_UINT16:
      return value->data.uint16;
    case PMIX_UINT32:
      return static_cast<int>(value->data.uint32);
    case PMIX_INT:
      return value->data.integer;
    default:
      throw Error(ErrorCode::system, std::string("PMIx: ") + key + " is not a number");
  }
}

std::string get_text(const pmix_proc_t& proc, const char* key, int timeout_s = 0) {
  const auto value = get(proc, key, timeout_s);
  return value && value->type == PMIX_STRING ? value->data.string : "";
}

/// Once all ranks of the job have come here they see what the others put. PMIx_Fence alone has no deadline
/// that servers keep.
std::future<pmix_status_t> begin_fence(const Client& client) {
  auto done = std::make_unique<std::promise<pmix_status_t>>();
  auto result = done->get_future();
  const auto callback = [](pmix_status_t status, void* data) {
    const std::unique_ptr<std::promise<pmix_status_t>> mine(static_cast<std::promise<pmix_status_t>*>(data));
    mine->set_value(status);
  };
  pmix_info_t collect{};
  std::strncpy(collect.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  const auto all = client.proc(PMIX_RANK_WILDCARD);
  const auto status = ::PMIx_Fence_nb(&all, 1, &collect, 1, callback, done.get());
  if (status == PMIX_SUCCESS) {
    static_cast<void>(done.release());  // the callback's, which is not called otherwise
  } else if (status == PMIX_OPERATION_SUCCEEDED) {
    done->set_value(PMIX_SUCCESS);
  } else {
    check(status, "PMIx_Fence_nb");
  }
  return result;
}

class PmixLauncher final : public Launcher {
 public:
  PmixLauncher(Launch identity, std::unique_ptr<Client> client)
      : Launcher(std::move(identity)), client_(std::move(client)) {}

  UniqueId agree(const std::string& interface, const Deadline& deadline) override {
    const std::string key = "tutti-id-" + std::to_string(number_);
    if (!fence_.valid()) {
      if (identity().rank == 0) offer(key, interface, deadline);
      fence_ = begin_fence(*client_);
    }
    if (fence_.wait_until(deadline.end()) != std::future_status::ready)
      throw Error(ErrorCode::timeout,
                  "PMIx_Fence: not all ranks that the launcher started asked for a communicator in time");
    ++number_;
    const auto failure = std::exchange(failure_, nullptr);
    check(fence_.get(), "PMIx_Fence");
    if (failure) std::rethrow_exception(failure);
    return id_of(get_text(client_->proc(0), key.c_str(), std::max(1, deadline.poll_ms() / 1000)));
  }

 private:
  void offer(const std::string& key, const std::string& interface, const Deadline& deadline) {
    auto [text, failure] = offer_id(interface, one_host(), other_host(), deadline);
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = text.data();
    check(::PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put");
    check(::PMIx_Commit(), "PMIx_Commit");
    failure_ = failure;
  }
  [[nodiscard]] std::string other_host() const {
    if (one_host()) return "";
    const auto mine = get_text(client_->self(), PMIX_HOSTNAME);
    for (int rank = identity().size - 1; rank > 0; --rank) {
      auto name = get_text(client_->proc(static_cast<pmix_rank_t>(rank)), PMIX_HOSTNAME);
      if (!name.empty() && name != mine) return name;
    }
    return "";
  }

  std::unique_ptr<Client> client_;
  unsigned number_ = 0;               ///< of the next id
  std::exception_ptr failure_;        ///< to make it
  std::future<pmix_status_t> fence_;  ///< of all ranks, for it; not valid: not begun
};

}  // namespace

std::unique_ptr<Launcher> find_pmix() {
  if (!variable("PMIX_NAMESPACE") || !variable("PMIX_RANK")) return nullptr;
  auto client = std::make_unique<Client>();
  const auto job = client->proc(PMIX_RANK_WILDCARD);
  Launch identity{.launcher = "PMIx",
                  .rank = static_cast<Rank>(client->self().rank),
                  .size = get_int(job, PMIX_JOB_SIZE, 1),
                  .local_rank = get_int(client->self(), PMIX_LOCAL_RANK, 0),
                  .local_size = get_int(job, PMIX_LOCAL_SIZE, 1),
                  .id = {}};
  return std::make_unique<PmixLauncher>(std::move(identity), std::move(client));
}

}  // namespace tutti::bootstrap

#else

namespace tutti::bootstrap {

std::unique_ptr<Launcher> find_pmix() {
  // Not Slurm's variables either: those of an mpirun inside a Slurm job describe Open MPI's daemons, not the
  // ranks.
  if (number("OMPI_COMM_WORLD_SIZE").value_or(1) > 1)
    throw Error(ErrorCode::unsupported,
                "started by Open MPI's mpirun, but this tutti was built without PMIx; install PMIx (Debian: "
                "libpmix-dev) "
                "and build again, or make the communicator with tutti/mpi.hpp");
  return nullptr;
}

}  // namespace tutti::bootstrap

#endif
