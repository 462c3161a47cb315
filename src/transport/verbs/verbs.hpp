/// \file
/// The one door to libibverbs: every call of it that the transport makes goes through this table, so that
/// tests can put another fabric, or one with planted faults, in its place.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <vector>

#include "base/fork_guard.hpp"

namespace tutti::transport::verbs {

/// Arguments, results and errno are those of the functions of the same names with `ibv_` in front. Thread
/// safe as these are.
class Verbs {
 public:
  virtual ~Verbs() = default;

  /// Names of the devices of this host; none where there is no RDMA in the kernel.
  virtual std::vector<std::string> device_names() = 0;
  /// nullptr and errno.
  virtual ibv_context* open_device(const std::string& name) = 0;
  virtual int close_device(ibv_context* context) = 0;
  virtual ibv_transport_type transport_type(ibv_context* context) = 0;
  virtual int query_device(ibv_context* context, ibv_device_attr* attributes) = 0;
  virtual int query_port(ibv_context* context, int port, ibv_port_attr* attributes) = 0;
  virtual int query_pkey(ibv_context* context, int port, int index, __be16* key) = 0;
  /// The valid entries of all ports.
  virtual std::vector<ibv_gid_entry> query_gid_table(ibv_context* context) = 0;
  virtual int get_async_event(ibv_context* context, ibv_async_event* event) = 0;
  virtual void ack_async_event(ibv_async_event* event) = 0;

  virtual ibv_pd* alloc_pd(ibv_context* context) = 0;
  virtual int dealloc_pd(ibv_pd* domain) = 0;
  virtual ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) = 0;
  virtual ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t iova,
                                int fd, int access) = 0;
  virtual int dereg_mr(ibv_mr* region) = 0;

  virtual ibv_comp_channel* create_comp_channel(ibv_context* context) = 0;
  virtual int destroy_comp_channel(ibv_comp_channel* channel) = 0;
  virtual ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) = 0;
  virtual int destroy_cq(ibv_cq* queue) = 0;
  virtual int poll_cq(ibv_cq* queue, int count, ibv_wc* completions) = 0;
  virtual int req_notify_cq(ibv_cq* queue) = 0;
  virtual int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue) = 0;
  virtual void ack_cq_events(ibv_cq* queue, unsigned count) = 0;

  virtual ibv_srq* create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) = 0;
  virtual int destroy_srq(ibv_srq* queue) = 0;
  virtual int post_srq_recv(ibv_srq* queue, ibv_recv_wr* first, ibv_recv_wr** bad) = 0;
  virtual ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) = 0;
  virtual int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) = 0;
  virtual int destroy_qp(ibv_qp* pair) = 0;
  virtual int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) = 0;
  virtual int post_recv(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) = 0;
};

/// libibverbs itself, unless it was replaced.
std::shared_ptr<Verbs> real_verbs();
/// For tests; nullptr goes back to libibverbs. What was made before keeps what it has.
void replace_verbs(std::shared_ptr<Verbs> verbs);

/// Destroys through the table; in a child made by fork it does nothing, because the object is the parent's.
template <class T, int (Verbs::*destroy)(T*)>
struct Destroy {
  Verbs* verbs = nullptr;
  std::uint64_t generation = fork_generation();
  void operator()(T* object) const {
    if (generation == fork_generation()) static_cast<void>((verbs->*destroy)(object));
  }
};
template <class T, int (Verbs::*destroy)(T*)>
using Owned = std::unique_ptr<T, Destroy<T, destroy>>;

using Context = Owned<ibv_context, &Verbs::close_device>;
using Domain = Owned<ibv_pd, &Verbs::dealloc_pd>;
using MemoryRegion = Owned<ibv_mr, &Verbs::dereg_mr>;
using EventChannel = Owned<ibv_comp_channel, &Verbs::destroy_comp_channel>;
using CompletionQueue = Owned<ibv_cq, &Verbs::destroy_cq>;
using SharedReceiveQueue = Owned<ibv_srq, &Verbs::destroy_srq>;
using QueuePairHandle = Owned<ibv_qp, &Verbs::destroy_qp>;

}  // namespace tutti::transport::verbs
