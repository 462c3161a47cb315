#include "transport/verbs/queue_pair.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/deadline.hpp"
#include "bootstrap/hmac.hpp"
#include "transport/verbs/devices.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr std::uint32_t packet_numbers = 0xffffff;  // 24 bits
constexpr std::uint8_t hop_limit = 64;
constexpr std::uint8_t rnr_timer_0_64_ms = 12;
constexpr std::uint8_t rnr_retries = 6;  // 7 would be for ever

std::uint64_t random_number() {
  std::uint64_t number = 0;
  bootstrap::random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

/// `max_inline`: what is asked for, then what was granted.
ibv_qp* create(Verbs& verbs, const QueuePairSetting& setting, int& max_inline) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = setting.completions;
  attributes.recv_cq = setting.completions;
  attributes.srq = setting.shared_receives;
  attributes.cap.max_send_wr = static_cast<std::uint32_t>(setting.sends);
  attributes.cap.max_recv_wr =
      setting.shared_receives != nullptr ? 0 : static_cast<std::uint32_t>(setting.receives);
  attributes.cap.max_send_sge = 2;
  attributes.cap.max_recv_sge = setting.shared_receives != nullptr ? 0 : 1;
  attributes.cap.max_inline_data = static_cast<std::uint32_t>(max_inline);
  attributes.qp_type = IBV_QPT_RC;
  ibv_qp* const pair = verbs.create_qp(setting.domain, &attributes);
  if (pair != nullptr) max_inline = std::min(max_inline, static_cast<int>(attributes.cap.max_inline_data));
  return pair;
}

}  // namespace

QueuePair::QueuePair(Verbs& verbs, const QueuePairSetting& setting)
    : verbs_(verbs),
      setting_(setting),
      first_packet_(static_cast<std::uint32_t>(random_number() & packet_numbers)),
      token_(random_number()) {
  int code = 0;
  for (max_inline_ = setting.max_inline;; max_inline_ = max_inline_ > 64 ? 64 : 0) {
    errno = 0;  // libbnxt_re refuses without a word
    handle_ = QueuePairHandle(create(verbs, setting, max_inline_), {&verbs});
    code = errno == 0 ? EINVAL : errno;
    if (handle_ || max_inline_ == 0 || code != EINVAL) break;
  }
  if (!handle_) throw call_error(setting_.place, "creating a queue pair", code);
  to_init();
}

Address QueuePair::address() const {
  return {setting_.gid,
          number(),
          first_packet_,
          setting_.lid,
          static_cast<std::uint16_t>(setting_.mtu),
          setting_.manager_port,
          static_cast<std::uint16_t>(setting_.global_route ? 1 : 0),
          token_};
}

bool QueuePair::connect(const Address& peer, int reads, bool last_try) {
  if (!to_rtr(peer, last_try)) return false;
  to_rts(reads);
  return true;
}

void QueuePair::connect_patiently(const Address& peer, int reads) {
  const auto last = Clock::now() + unreachable_for;
  while (!connect(peer, reads, Clock::now() >= last)) std::this_thread::sleep_for(retry_unreachable_after);
}

// 0, or an errno.
int QueuePair::try_modify(ibv_qp_attr& attributes, int mask) {
  const int code = verbs_.modify_qp(handle_.get(), &attributes, mask);
  return code == 0 ? 0 : errno_of(code);
}

Error QueuePair::modify_error(const char* step, int code) const {
  return call_error(setting_.place, fmt::format("bringing a queue pair to {}", step), code);
}

void QueuePair::modify(ibv_qp_attr& attributes, int mask, const char* step) {
  if (const int code = try_modify(attributes, mask); code != 0) throw modify_error(step, code);
}

void QueuePair::to_init() {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.pkey_index = static_cast<std::uint16_t>(setting_.pkey_index);
  a.port_num = static_cast<std::uint8_t>(setting_.port);
  a.qp_access_flags = static_cast<unsigned>(setting_.access);
  const int of_packets = setting_.managed ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  modify(a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | of_packets, "INIT");
}

bool QueuePair::to_rtr(const Address& peer, bool last_try) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = mtu_of(std::min<int>(setting_.mtu, peer.mtu));
  a.dest_qp_num = peer.queue_pair;
  a.rq_psn = peer.first_packet;
  a.max_dest_rd_atomic = static_cast<std::uint8_t>(setting_.reads_served);
  a.min_rnr_timer = rnr_timer_0_64_ms;
  a.ah_attr.port_num = static_cast<std::uint8_t>(setting_.port);
  a.ah_attr.sl = static_cast<std::uint8_t>(setting_.service_level);
  a.ah_attr.dlid = peer.lid;
  a.ah_attr.is_global = setting_.global_route || peer.global_route != 0 ? 1 : 0;
  std::memcpy(a.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  a.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(setting_.gid_index);
  a.ah_attr.grh.hop_limit = hop_limit;
  a.ah_attr.grh.traffic_class = static_cast<std::uint8_t>(setting_.traffic_class);
  const int code = try_modify(a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (code != 0 && (last_try || !is_unreachable(code))) throw modify_error("RTR", code);
  return code == 0;
}

void QueuePair::to_rts(int reads) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = first_packet_;
  a.timeout = static_cast<std::uint8_t>(setting_.patience.timeout);
  a.retry_cnt = static_cast<std::uint8_t>(setting_.patience.retries);
  a.rnr_retry = rnr_retries;
  a.max_rd_atomic = static_cast<std::uint8_t>(reads);
  modify(a,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

int QueuePair::room() const { return setting_.sends - static_cast<int>(added_ - completed_); }

std::uint64_t QueuePair::add(const Write& write) {
  assert(room() > 0);
  if (batched_ == batch) ring();
  const auto k = static_cast<std::size_t>(batched_++);
  ++added_;
  ibv_send_wr& request = requests_[k];
  request = {};
  pieces_[k] = write.pieces;
  request.wr_id = added_;
  request.sg_list = pieces_[k].data();
  request.num_sge = write.piece_count;
  request.opcode = write.opcode;
  request.imm_data = htonl(write.immediate);
  request.wr.rdma.remote_addr = write.to;
  request.wr.rdma.rkey = write.remote_key;
  // Unsignalled requests hold their places until a later one completes: one in a quarter of the queue must.
  const bool due = added_ - last_signalled_ >= static_cast<std::uint64_t>(setting_.sends) / 4;
  if (write.signalled || due) {
    request.send_flags |= IBV_SEND_SIGNALED;
    last_signalled_ = added_;
  }
  if (write.inlined) request.send_flags |= IBV_SEND_INLINE;
  if (write.fenced) request.send_flags |= IBV_SEND_FENCE;
  return added_;
}

void QueuePair::ring() {
  if (batched_ == 0) return;
  for (int k = 0; k < batched_; ++k)
    requests_[static_cast<std::size_t>(k)].next =
        k + 1 < batched_ ? &requests_[static_cast<std::size_t>(k) + 1] : nullptr;
  const int count = batched_;
  batched_ = 0;
  ibv_send_wr* bad = nullptr;
  if (const int code = verbs_.post_send(handle_.get(), requests_.data(), &bad); code != 0)
    throw call_error(setting_.place,
                     fmt::format("posting work requests ({} of {} were taken)",
                                 bad == nullptr ? 0 : bad - requests_.data(), count),
                     errno_of(code));
}

void QueuePair::completed(std::uint64_t number) { completed_ = std::max(completed_, number); }

}  // namespace tutti::transport::verbs
