#include "transport/verbs/status.hpp"

#include <fmt/format.h>

#include <system_error>

#include "base/system_error.hpp"
#include "transport/verbs/options.hpp"

namespace tutti::transport::verbs {

namespace {

struct Known {
  const char* text;
  const char* remedy;
  bool is_ours = false;  ///< at fault is this rank, not the peer
};

Known explain(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return {
          "no answer from the peer",
          "look whether that rank and its host live (its own error comes first), then at the link: "
          "ibv_devinfo, "
          "cables, switch, the route between the two addresses, PFC for RoCE; where only long messages are "
          "lost, a switch takes shorter packets than both ports: TUTTI_VERBS_MTU=1024; TUTTI_VERBS_TIMEOUT "
          "and TUTTI_VERBS_RETRIES set the budget"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {"the peer had no receive posted", "this cannot happen with credits: please report it"};
    case IBV_WC_REM_ACCESS_ERR:
      return {"the peer refused access to its memory",
              "it freed or deregistered a buffer that was in use, or runs another version of tutti"};
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return {"the peer could not do what was asked", "run the same version of tutti on all hosts"};
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return {"the peer's device did not answer as it should",
              "look at the kernel's log (dmesg) and the device's counters, there first"};
    case IBV_WC_LOC_PROT_ERR:
      return {"memory to be sent is not registered any more",
              "do not free buffers while an operation uses them", true};
    case IBV_WC_LOC_LEN_ERR:
      return {"a message is longer than the port allows", "please report it", true};
    case IBV_WC_LOC_QP_OP_ERR:
      return {"the device could not send",
              "its link may be down or its address gone: ibv_devinfo, ip address", true};
    case IBV_WC_WR_FLUSH_ERR:
      return {"the connection had failed before", "the first error says why"};
    default:
      return {"the device reports an error", "look at the kernel's log (dmesg) and the device's counters",
              true};
  }
}

std::string where(const Place& place) {
  return place.peer < 0 ? fmt::format("{} port {}", place.device, place.port)
                        : fmt::format("{} port {} to rank {}", place.device, place.port, place.peer);
}

std::vector<Rank> at_fault(Rank rank) { return rank < 0 ? std::vector<Rank>{} : std::vector<Rank>{rank}; }

}  // namespace

Error completion_error(const Place& place, ibv_wc_status status, std::uint32_t vendor_code,
                       const Patience& patience) {
  const auto [text, remedy, is_ours] = explain(status);
  const bool silent = status == IBV_WC_RETRY_EXC_ERR;
  const std::string tried = silent ? fmt::format(" within {:.3g} s (timeout {}, {} retries)",
                                                 retry_budget(patience.timeout, patience.retries),
                                                 patience.timeout, patience.retries)
                                   : "";
  return {silent ? ErrorCode::peer_lost : ErrorCode::system,
          fmt::format("verbs, {}: {}{} [status {} \"{}\", vendor code {:#x}]; {}", where(place), text, tried,
                      static_cast<int>(status), ::ibv_wc_status_str(status), vendor_code, remedy),
          at_fault(is_ours ? place.rank : place.peer)};
}

bool is_unreachable(int code) { return code == ENETUNREACH || code == EHOSTUNREACH || code == ETIMEDOUT; }

std::string call_text(int code) {
  const char* remedy = SystemError::remedy(code);
  if (code == ENOMEM)
    remedy =
        "; the device's or the process's limit is reached: see ulimit -l (locked memory) and ibv_devinfo -v";
  if (code == EAGAIN)
    remedy = "; the limit of a control group is reached: see rdma.max, or raise what the container may have";
  if (code == EPERM || code == EACCES || code == ENOENT)
    remedy = "; the process may not use /dev/infiniband; in containers --device=/dev/infiniband";
  if (is_unreachable(code))
    remedy = "; the address of the peer's port cannot be reached from this port: see ip route";
  return std::generic_category().message(code) + remedy;
}

Error call_error(const Place& place, const std::string& what, int code) {
  return {ErrorCode::system, fmt::format("verbs, {}: {}: {}", where(place), what, call_text(code)),
          at_fault(is_unreachable(code) ? place.peer : place.rank)};
}

bool is_fatal(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_WQ_FATAL:
      return true;
    default:
      return false;
  }
}

Error event_error(const Place& place, ibv_event_type event) {
  const bool is_theirs = event == IBV_EVENT_QP_REQ_ERR || event == IBV_EVENT_QP_ACCESS_ERR;  // its requests
  return {ErrorCode::system,
          fmt::format(
              "verbs, {}: the device reports \"{}\"; look at the kernel's log (dmesg), then restart the job "
              "without this device (TUTTI_VERBS_DEVICES)",
              where(place), ::ibv_event_type_str(event)),
          at_fault(is_theirs ? place.peer : place.rank)};
}

}  // namespace tutti::transport::verbs
