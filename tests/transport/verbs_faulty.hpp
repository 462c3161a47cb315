/// \file
/// Verbs that fail when they are told to, whatever lies behind: real devices or the fake ones.
#pragma once

#include <arpa/inet.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "transport/verbs/verbs.hpp"

namespace tutti::transport::testing {

/// What is to go wrong; set at any time. Each fault fires once, and `fired` counts.
struct VerbsFaults {
  std::atomic<int> post_fails_in{-1};       ///< this many posts from now one fails; negative: none
  std::atomic<int> post_result{ENOMEM};     ///< with this result
  std::atomic<bool> partly{false};          ///< that post takes its first request before it fails
  std::atomic<int> completion_status{-1};   ///< the next completion of a send has this ibv_wc_status
  std::atomic<std::int64_t> immediate{-1};  ///< bits of the next immediate that is received
  std::atomic<int> open_error{0};           ///< errno of the next open_device
  std::atomic<int> query_result{0};         ///< of the next query_device
  std::atomic<int> create_pair_error{0};    ///< errno of the next create_qp
  std::atomic<int> create_shared_error{0};  ///< errno of the next create_srq
  std::atomic<int> register_error{0};       ///< errno of the next reg_mr
  std::atomic<int> receive_error{0};        ///< result of the next post of a receive
  std::atomic<int> reaching_rtr_error{0};   ///< result of modify_qp to RTR,
  std::atomic<int> reaching_rtr_times{1};   ///< so many times
  std::atomic<int> fired{0};
};

/// Forwards everything.
class ForwardingVerbs : public verbs::Verbs {
 public:
  explicit ForwardingVerbs(std::shared_ptr<verbs::Verbs> to) : to_(std::move(to)) {}
  std::vector<std::string> device_names() override { return to_->device_names(); }
  ibv_context* open_device(const std::string& name) override { return to_->open_device(name); }
  int close_device(ibv_context* c) override { return to_->close_device(c); }
  ibv_transport_type transport_type(ibv_context* c) override { return to_->transport_type(c); }
  int query_device(ibv_context* c, ibv_device_attr* a) override { return to_->query_device(c, a); }
  int query_port(ibv_context* c, int port, ibv_port_attr* a) override { return to_->query_port(c, port, a); }
  int query_pkey(ibv_context* c, int port, int index, __be16* key) override {
    return to_->query_pkey(c, port, index, key);
  }
  std::vector<ibv_gid_entry> query_gid_table(ibv_context* c) override { return to_->query_gid_table(c); }
  int get_async_event(ibv_context* c, ibv_async_event* e) override { return to_->get_async_event(c, e); }
  void ack_async_event(ibv_async_event* e) override { to_->ack_async_event(e); }
  ibv_pd* alloc_pd(ibv_context* c) override { return to_->alloc_pd(c); }
  int dealloc_pd(ibv_pd* d) override { return to_->dealloc_pd(d); }
  ibv_mr* reg_mr(ibv_pd* d, void* at, std::size_t bytes, int access) override {
    return to_->reg_mr(d, at, bytes, access);
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* d, std::uint64_t offset, std::size_t bytes, std::uint64_t iova, int fd,
                        int access) override {
    return to_->reg_dmabuf_mr(d, offset, bytes, iova, fd, access);
  }
  int dereg_mr(ibv_mr* r) override { return to_->dereg_mr(r); }
  ibv_comp_channel* create_comp_channel(ibv_context* c) override { return to_->create_comp_channel(c); }
  int destroy_comp_channel(ibv_comp_channel* c) override { return to_->destroy_comp_channel(c); }
  ibv_cq* create_cq(ibv_context* c, int entries, ibv_comp_channel* channel) override {
    return to_->create_cq(c, entries, channel);
  }
  int destroy_cq(ibv_cq* q) override { return to_->destroy_cq(q); }
  int poll_cq(ibv_cq* q, int count, ibv_wc* completions) override {
    return to_->poll_cq(q, count, completions);
  }
  int req_notify_cq(ibv_cq* q) override { return to_->req_notify_cq(q); }
  int get_cq_event(ibv_comp_channel* c, ibv_cq** q) override { return to_->get_cq_event(c, q); }
  void ack_cq_events(ibv_cq* q, unsigned count) override { to_->ack_cq_events(q, count); }
  ibv_srq* create_srq(ibv_pd* d, ibv_srq_init_attr* a) override { return to_->create_srq(d, a); }
  int destroy_srq(ibv_srq* q) override { return to_->destroy_srq(q); }
  int post_srq_recv(ibv_srq* q, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    return to_->post_srq_recv(q, first, bad);
  }
  ibv_qp* create_qp(ibv_pd* d, ibv_qp_init_attr* a) override { return to_->create_qp(d, a); }
  int modify_qp(ibv_qp* p, ibv_qp_attr* a, int mask) override { return to_->modify_qp(p, a, mask); }
  int destroy_qp(ibv_qp* p) override { return to_->destroy_qp(p); }
  int post_send(ibv_qp* p, ibv_send_wr* first, ibv_send_wr** bad) override {
    return to_->post_send(p, first, bad);
  }
  int post_recv(ibv_qp* p, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    return to_->post_recv(p, first, bad);
  }

 protected:
  std::shared_ptr<verbs::Verbs> to_;
};

class FaultyVerbs final : public ForwardingVerbs {
 public:
  FaultyVerbs(std::shared_ptr<verbs::Verbs> to, std::shared_ptr<VerbsFaults> faults)
      : ForwardingVerbs(std::move(to)), faults_(std::move(faults)) {}

  ibv_context* open_device(const std::string& name) override {
    return fails(faults_->open_error) ? nullptr : to_->open_device(name);
  }
  int query_device(ibv_context* c, ibv_device_attr* a) override {
    return fails(faults_->query_result) ? errno : to_->query_device(c, a);
  }
  ibv_mr* reg_mr(ibv_pd* d, void* at, std::size_t bytes, int access) override {
    return fails(faults_->register_error) ? nullptr : to_->reg_mr(d, at, bytes, access);
  }
  ibv_srq* create_srq(ibv_pd* d, ibv_srq_init_attr* a) override {
    return fails(faults_->create_shared_error) ? nullptr : to_->create_srq(d, a);
  }
  ibv_qp* create_qp(ibv_pd* d, ibv_qp_init_attr* a) override {
    return fails(faults_->create_pair_error) ? nullptr : to_->create_qp(d, a);
  }
  int modify_qp(ibv_qp* p, ibv_qp_attr* a, int mask) override {
    if (a->qp_state == IBV_QPS_RTR && faults_->reaching_rtr_error != 0 && faults_->reaching_rtr_times-- > 0) {
      ++faults_->fired;
      return faults_->reaching_rtr_error;
    }
    return to_->modify_qp(p, a, mask);
  }
  int post_recv(ibv_qp* p, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    return fails(faults_->receive_error) ? errno : to_->post_recv(p, first, bad);
  }
  int post_srq_recv(ibv_srq* q, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    return fails(faults_->receive_error) ? errno : to_->post_srq_recv(q, first, bad);
  }
  int post_send(ibv_qp* p, ibv_send_wr* first, ibv_send_wr** bad) override {
    if (faults_->post_fails_in < 0 || faults_->post_fails_in-- != 0) return to_->post_send(p, first, bad);
    ++faults_->fired;
    *bad = first;
    if (faults_->partly && first->next != nullptr) {
      *bad = first->next;
      first->next = nullptr;
      ibv_send_wr* none = nullptr;
      to_->post_send(p, first, &none);
    }
    return faults_->post_result;
  }
  int poll_cq(ibv_cq* q, int count, ibv_wc* completions) override {
    const int got = to_->poll_cq(q, count, completions);
    constexpr auto receive_mark = std::uint64_t{1} << 63;
    for (int k = 0; k < got; ++k) {
      if ((completions[k].wc_flags & IBV_WC_WITH_IMM) != 0)
        if (const auto bits = faults_->immediate.exchange(-1); bits >= 0) {
          completions[k].imm_data = htonl(static_cast<std::uint32_t>(bits));
          ++faults_->fired;
        }
      if ((completions[k].wr_id & receive_mark) == 0)
        if (const int status = faults_->completion_status.exchange(-1); status >= 0) {
          completions[k].status = static_cast<ibv_wc_status>(status);
          completions[k].vendor_err = 0x42;
          ++faults_->fired;
        }
    }
    return got;
  }

 private:
  bool fails(std::atomic<int>& code) {
    const int set = code.exchange(0);
    if (set == 0) return false;
    errno = set;
    ++faults_->fired;
    return true;
  }
  std::shared_ptr<VerbsFaults> faults_;
};

}  // namespace tutti::transport::testing
