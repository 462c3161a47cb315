// PMIx: Open MPI's mpirun, PRRTE, srun --mpi=pmix. https://pmix.github.io/standard
#include <tutti/error.hpp>

#include "base/fork_guard.hpp"
#include "base/long_call.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/variables.hpp"

#ifdef TUTTI_HAVE_PMIX

#include <pmix.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

namespace tutti::bootstrap {
namespace {

void check(pmix_status_t status, const std::string& what, const char* remedy = "") {
  if (status == PMIX_SUCCESS) return;
  throw Error(status == PMIX_ERR_TIMEOUT ? ErrorCode::timeout : ErrorCode::system,
              "PMIx: " + what + ": " + ::PMIx_Error_string(status) + remedy);
}

/// This process, as PMIx knows it. A copy stays good when the connection has gone: calls fail then.
class Client {
 public:
  explicit Client(const pmix_proc_t& self) : self_(self) {}
  [[nodiscard]] const pmix_proc_t& self() const { return self_; }
  [[nodiscard]] pmix_proc_t proc(pmix_rank_t rank) const {
    pmix_proc_t other = self_;
    other.rank = rank;
    return other;
  }

 private:
  pmix_proc_t self_;
};

/// PMIx counts its users in a process; the program's MPI may be another one.
class PmixConnection {
 public:
  PmixConnection() {
    check(::PMIx_Init(&self_, nullptr, 0), "PMIx_Init",
          "; if no launcher left PMIX_NAMESPACE and PMIX_RANK for this process, unset them");
  }
  PmixConnection(const PmixConnection&) = delete;
  PmixConnection& operator=(const PmixConnection&) = delete;
  ~PmixConnection() { ::PMIx_Finalize(nullptr, 0); }
  [[nodiscard]] Client client() const { return Client(self_); }

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

/// Some host besides this one; empty where the launcher tells none.
std::string other_host(const Client& client, int ranks) {
  const auto mine = get_text(client.self(), PMIX_HOSTNAME);
  for (int rank = ranks - 1; rank > 0; --rank) {
    auto name = get_text(client.proc(static_cast<pmix_rank_t>(rank)), PMIX_HOSTNAME);
    if (!name.empty() && name != mine) return name;
  }
  return "";
}

void put(const std::string& key, std::string text) {
  pmix_value_t value{};
  value.type = PMIX_STRING;
  value.data.string = text.data();
  check(::PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put");
  check(::PMIx_Commit(), "PMIx_Commit");
}

/// Once all ranks of the job have come here they see what the others put.
void fence(const Client& client) {
  pmix_info_t collect{};
  std::strncpy(collect.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  const auto all = client.proc(PMIX_RANK_WILDCARD);
  check(::PMIx_Fence(&all, 1, &collect, 1), "PMIx_Fence");
}

/// What the launcher said first.
struct Met {
  std::unique_ptr<PmixConnection> connection;
  Launch identity;
};

Met meet() {
  auto connection = std::make_unique<PmixConnection>();
  const Client client = connection->client();
  const auto job = client.proc(PMIX_RANK_WILDCARD);
  Launch identity{.launcher = "PMIx",
                  .rank = static_cast<Rank>(client.self().rank),
                  .size = get_int(job, PMIX_JOB_SIZE, 1),
                  .local_rank = get_int(client.self(), PMIX_LOCAL_RANK, 0),
                  .local_size = get_int(job, PMIX_LOCAL_SIZE, 1),
                  .id = {}};
  return {std::move(connection), std::move(identity)};
}

/// An id of rank 0 for all.
struct Exchange {
  Client client;
  int ranks;
  bool one_host;
  std::string interface;
  Deadline deadline;
  std::string key;

  /// What rank 0 offers.
  std::string operator()() const {
    const auto failure = client.self().rank == 0 ? offer() : nullptr;
    fence(client);  // whatever failed: the others wait for it
    if (failure) std::rethrow_exception(failure);
    return get_text(client.proc(0), key.c_str(), std::max(1, deadline.poll_ms() / 1000));
  }
  /// Why there is no id, if there is none.
  [[nodiscard]] std::exception_ptr offer() const try {
    const auto made = offer_id(interface, one_host, one_host ? "" : other_host(client, ranks), deadline);
    put(key, made.text);
    return made.failure;
  } catch (...) {
    return std::current_exception();
  }
};

// PMIx has no deadlines that servers keep, and waits for ever for one that is stopped.
class PmixLauncher final : public Launcher {
 public:
  explicit PmixLauncher(Met met)
      : Launcher(std::move(met.identity)), connection_(std::move(met.connection)) {}

  UniqueId agree(const std::string& interface, const Deadline& deadline) override {
    if (!exchange_.under_way()) {
      exchange_.begin(Exchange{connection_->client(), identity().size, one_host(), interface, deadline,
                               "tutti-id-" + std::to_string(number_)});
      ++number_;
    }
    if (const auto text = exchange_.result_by(deadline)) return id_of(*text);
    throw Error(ErrorCode::timeout,
                "PMIx_Fence: not all ranks that the launcher started asked for a communicator in time, or it "
                "no longer answers");
  }

 private:
  std::unique_ptr<PmixConnection> connection_;
  unsigned number_ = 0;             ///< of the next id
  LongCall<std::string> exchange_;  ///< of an id
};

/// PMIx takes no second beginning while the first one waits.
PerProcess<LongCall<Met>> meeting;

}  // namespace

std::unique_ptr<Launcher> find_pmix(const Deadline& deadline) {
  if (!variable("PMIX_NAMESPACE") || !variable("PMIX_RANK")) return nullptr;
  auto& mine = meeting.get();
  if (!mine.under_way()) mine.begin(&meet);
  auto met = mine.result_by(deadline);
  if (!met)
    throw Error(
        ErrorCode::timeout,
        "PMIx_Init: the launcher (mpirun, or its daemon on this host) did not answer in time; it may be "
        "stopped, or hang");
  return std::make_unique<PmixLauncher>(*std::move(met));
}

}  // namespace tutti::bootstrap

#else

namespace tutti::bootstrap {

std::unique_ptr<Launcher> find_pmix(const Deadline& /*deadline*/) {
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
