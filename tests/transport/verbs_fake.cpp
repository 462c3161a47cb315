#include "verbs_fake.hpp"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <span>

#include "verbs_fake_objects.hpp"

namespace tutti::transport::testing {

namespace {

class Fake final : public verbs::Verbs {
 public:
  explicit Fake(std::vector<FakeDevice> devices) : devices_(std::move(devices)) {}

  std::vector<std::string> device_names() override {
    std::vector<std::string> names;
    for (const auto& device : devices_) names.push_back(device.name);
    return names;
  }
  ibv_context* open_device(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(devices_, name, &FakeDevice::name);
    if (found == devices_.end()) return nullptr;
    auto* context = new FakeContext;
    context->device = &*found;
    context->visible.async_fd = context->bell.fd();
    contexts_.insert(context);
    return &context->visible;
  }
  int close_device(ibv_context* context) override {
    const std::scoped_lock lock(mutex_);
    auto* mine = reinterpret_cast<FakeContext*>(context);
    contexts_.erase(mine);
    delete mine;
    return 0;
  }
  ibv_transport_type transport_type(ibv_context* context) override { return device(context).transport; }
  int query_device(ibv_context* context, ibv_device_attr* a) override {
    *a = {};
    a->vendor_id = device(context).vendor;
    a->phys_port_cnt = 1;
    a->max_cqe = device(context).max_cqe;
    a->max_qp = 65536;
    a->max_qp_rd_atom = 16;
    a->max_qp_init_rd_atom = 8;
    a->max_srq = device(context).max_srq;
    a->max_srq_wr = device(context).max_srq == 0 ? 0 : 65536;
    return 0;
  }
  int query_port(ibv_context* context, int port, ibv_port_attr* a) override {
    if (port != 1) return EINVAL;
    *a = {};
    a->state = device(context).active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    a->active_mtu = device(context).mtu;
    a->max_msg_sz = device(context).longest_message;
    a->link_layer = static_cast<std::uint8_t>(device(context).link_layer);
    if (device(context).needs_global_route) a->flags = IBV_QPF_GRH_REQUIRED;
    a->active_speed = 64;
    a->active_width = 2;
    return 0;
  }
  int query_pkey(ibv_context* context, int port, int index, __be16* key) override {
    const auto& table = device(context).partitions;
    if (port != 1 || static_cast<std::size_t>(index) >= table.size()) return -1;
    *key = htons(table[static_cast<std::size_t>(index)]);
    return 0;
  }
  std::vector<ibv_gid_entry> query_gid_table(ibv_context* context) override {
    std::vector<ibv_gid_entry> table;
    for (const auto& gid : device(context).gids) {
      ibv_gid_entry entry{};
      std::memcpy(entry.gid.raw, gid.raw.data(), gid.raw.size());
      entry.gid_index = static_cast<std::uint32_t>(gid.index);
      entry.port_num = 1;
      entry.gid_type = gid.roce_v2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
      table.push_back(entry);
    }
    return table;
  }
  int get_async_event(ibv_context* context, ibv_async_event* event) override {
    const std::scoped_lock lock(mutex_);
    auto& mine = *reinterpret_cast<FakeContext*>(context);
    if (mine.events.empty()) return -1;
    *event = mine.events.front();
    mine.events.pop_front();
    if (mine.events.empty()) mine.bell.silence();
    return 0;
  }
  void ack_async_event(ibv_async_event*) override {}

  ibv_pd* alloc_pd(ibv_context* context) override { return new ibv_pd{context, 0}; }
  int dealloc_pd(ibv_pd* domain) override {
    delete domain;
    return 0;
  }
  ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) override {
    const std::scoped_lock lock(mutex_);
    auto region = std::make_unique<FakeRegion>();
    region->visible.context = domain->context;
    region->visible.pd = domain;
    region->visible.addr = address;
    region->visible.length = bytes;
    region->visible.lkey = region->visible.rkey = next_key_++;
    region->access = access;
    regions_[region->visible.lkey] = region.get();
    return &region.release()->visible;
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t, std::size_t bytes, std::uint64_t iova, int fd,
                        int access) override {
    if (!device(domain->context).dma_bufs) {
      errno = EOPNOTSUPP;
      return nullptr;
    }
    if (::fcntl(fd, F_GETFD) < 0) return nullptr;  // EBADF
    return reg_mr(domain, reinterpret_cast<void*>(iova), bytes, access);
  }
  int dereg_mr(ibv_mr* region) override {
    const std::scoped_lock lock(mutex_);
    regions_.erase(region->lkey);
    delete reinterpret_cast<FakeRegion*>(region);
    return 0;
  }

  ibv_comp_channel* create_comp_channel(ibv_context* context) override {
    const std::scoped_lock lock(mutex_);
    auto* channel = new FakeChannel;
    channel->visible.context = context;
    channel->visible.fd = channel->bell.fd();
    channels_.insert(channel);
    return &channel->visible;
  }
  int destroy_comp_channel(ibv_comp_channel* channel) override {
    const std::scoped_lock lock(mutex_);
    auto* mine = reinterpret_cast<FakeChannel*>(channel);
    channels_.erase(mine);
    delete mine;
    return 0;
  }
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) override {
    auto* queue = new FakeQueue;
    queue->visible.context = context;
    queue->visible.cqe = entries;
    queue->visible.channel = channel;
    return &queue->visible;
  }
  int destroy_cq(ibv_cq* queue) override {
    const std::scoped_lock lock(mutex_);
    delete reinterpret_cast<FakeQueue*>(queue);
    return 0;
  }
  int poll_cq(ibv_cq* queue, int count, ibv_wc* completions) override {
    const std::scoped_lock lock(mutex_);
    auto& mine = *reinterpret_cast<FakeQueue*>(queue);
    int taken = 0;
    for (; taken < count && !mine.completions.empty(); ++taken) {
      completions[taken] = mine.completions.front();
      mine.completions.pop_front();
    }
    return taken;
  }
  int req_notify_cq(ibv_cq* queue) override {
    const std::scoped_lock lock(mutex_);
    reinterpret_cast<FakeQueue*>(queue)->armed = true;
    return 0;
  }
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue) override {
    const std::scoped_lock lock(mutex_);
    auto& mine = *reinterpret_cast<FakeChannel*>(channel);
    if (mine.events.empty()) return -1;
    *queue = mine.events.front();
    mine.events.pop_front();
    if (mine.events.empty()) mine.bell.silence();
    return 0;
  }
  void ack_cq_events(ibv_cq*, unsigned) override {}

  ibv_srq* create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) override {
    auto* queue = new FakeShared;
    queue->visible.pd = domain;
    queue->most = attributes->attr.max_wr;
    return &queue->visible;
  }
  int destroy_srq(ibv_srq* queue) override {
    const std::scoped_lock lock(mutex_);
    delete reinterpret_cast<FakeShared*>(queue);
    return 0;
  }
  int post_srq_recv(ibv_srq* queue, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    const std::scoped_lock lock(mutex_);
    auto& mine = *reinterpret_cast<FakeShared*>(queue);
    return post_to(mine.receives, mine.pieces, mine.most, first, bad);
  }
  int post_recv(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    const std::scoped_lock lock(mutex_);
    auto& mine = *reinterpret_cast<FakePair*>(pair);
    return post_to(mine.receives, mine.pieces, mine.setting.cap.max_recv_wr, first, bad);
  }
  ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) override {
    const std::scoped_lock lock(mutex_);
    if (attributes->cap.max_inline_data > device(domain->context).max_inline) {
      errno = EINVAL;
      return nullptr;
    }
    auto* pair = new FakePair;
    pair->visible.context = domain->context;
    pair->visible.pd = domain;
    pair->visible.qp_num = next_pair_++;
    pair->visible.state = IBV_QPS_RESET;
    pair->setting = *attributes;
    pairs_[pair->visible.qp_num] = pair;
    return &pair->visible;
  }
  int modify_qp(ibv_qp* pair, ibv_qp_attr* a, int mask) override {
    const std::scoped_lock lock(mutex_);
    auto& mine = *reinterpret_cast<FakePair*>(pair);
    const auto next = a->qp_state;
    const bool legal = (next == IBV_QPS_INIT && pair->state == IBV_QPS_RESET) ||
                       (next == IBV_QPS_RTR && pair->state == IBV_QPS_INIT) ||
                       (next == IBV_QPS_RTS && pair->state == IBV_QPS_RTR) || next == IBV_QPS_ERR;
    if (!legal || (mask & IBV_QP_STATE) == 0) return EINVAL;
    if ((mask & IBV_QP_PKEY_INDEX) != 0) {
      const auto& table = device(pair->context).partitions;
      if (a->pkey_index >= table.size()) return EINVAL;
      mine.partition = table[a->pkey_index];
    }
    if (next == IBV_QPS_INIT) mine.access = static_cast<int>(a->qp_access_flags);
    if (next == IBV_QPS_RTS) mine.reads = a->max_rd_atomic;
    if (next == IBV_QPS_RTR) {
      mine.reads_served = a->max_dest_rd_atomic;
      mine.peer = a->dest_qp_num;
      if (device(pair->context).needs_global_route && a->ah_attr.is_global == 0) return EINVAL;
      if (!has_address(a->ah_attr)) return ENETUNREACH;
    }
    pair->state = next;
    return 0;
  }
  int destroy_qp(ibv_qp* pair) override {
    const std::scoped_lock lock(mutex_);
    pairs_.erase(pair->qp_num);
    delete reinterpret_cast<FakePair*>(pair);
    return 0;
  }
  int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) override {
    const std::scoped_lock lock(mutex_);
    auto& mine = *reinterpret_cast<FakePair*>(pair);
    ++counters_.doorbells;
    for (auto* request = first; request != nullptr; request = request->next) {
      if (mine.held == mine.setting.cap.max_send_wr || pair->state < IBV_QPS_RTS) {
        *bad = request;
        return pair->state < IBV_QPS_RTS ? EINVAL : ENOMEM;
      }
      ++counters_.requests;
      run(mine, *request);
    }
    return 0;
  }

  FakeCounters counters() {
    const std::scoped_lock lock(mutex_);
    auto now = counters_;
    now.registered = regions_.size();
    now.pairs = pairs_.size();
    return now;
  }
  void cut_off(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    cut_off_.insert(name);
  }
  void take_away(const std::string& name) {
    cut_off(name);
    const std::scoped_lock lock(mutex_);
    for (auto* context : contexts_)
      if (context->device->name == name) context->bell.cut();
    for (auto* channel : channels_)
      if (device(channel->visible.context).name == name) channel->bell.cut();
  }
  void raise(const std::string& name, ibv_event_type event) {
    const std::scoped_lock lock(mutex_);
    for (auto* context : contexts_) {
      if (context->device->name != name) continue;
      ibv_async_event one{};
      one.event_type = event;
      push(*context, one);
    }
  }
  void raise_of_pair(std::size_t pair, ibv_event_type event) {
    const std::scoped_lock lock(mutex_);
    ibv_async_event one{};
    one.event_type = event;
    one.element.qp = &std::next(pairs_.begin(), static_cast<std::ptrdiff_t>(pair))->second->visible;
    push(*reinterpret_cast<FakeContext*>(one.element.qp->context), one);
  }

 private:
  static const FakeDevice& device(ibv_context* context) {
    return *reinterpret_cast<FakeContext*>(context)->device;
  }
  static void push(FakeContext& context, const ibv_async_event& event) {
    context.events.push_back(event);
    context.bell.ring();
  }
  static int post_to(std::deque<ibv_recv_wr>& queue, std::deque<ibv_sge>& pieces, std::size_t most,
                     ibv_recv_wr* first, ibv_recv_wr** bad) {
    for (auto* request = first; request != nullptr; request = request->next) {
      if (queue.size() == most) {
        *bad = request;
        return ENOMEM;
      }
      queue.push_back(*request);
      pieces.push_back(request->num_sge > 0 ? *request->sg_list : ibv_sge{});
    }
    return 0;
  }
  bool has_address(const ibv_ah_attr& route) {
    if (!route.is_global) return true;
    for (const auto& one : devices_)
      for (const auto& gid : one.gids)
        if (std::memcmp(gid.raw.data(), route.grh.dgid.raw, gid.raw.size()) == 0) return true;
    return false;
  }

  void complete(ibv_cq* queue, const ibv_wc& completion) {
    if (reinterpret_cast<FakeContext*>(queue->context)->bell.is_cut()) return;
    auto& mine = *reinterpret_cast<FakeQueue*>(queue);
    if (static_cast<int>(mine.completions.size()) == queue->cqe) std::abort();  // an overrun queue is dead
    mine.completions.push_back(completion);
    if (!mine.armed || queue->channel == nullptr) return;
    mine.armed = false;
    auto& channel = *reinterpret_cast<FakeChannel*>(queue->channel);
    channel.events.push_back(queue);
    channel.bell.ring();
  }

  /// The bytes of a request, or what is wrong with its memory.
  ibv_wc_status gather(const FakePair& pair, const ibv_send_wr& request, std::vector<std::byte>& bytes) {
    for (int k = 0; k < request.num_sge; ++k) {
      const auto& piece = request.sg_list[k];
      const auto* from = reinterpret_cast<const std::byte*>(piece.addr);
      if ((request.send_flags & IBV_SEND_INLINE) == 0 && !permits(pair, piece, 0)) return IBV_WC_LOC_PROT_ERR;
      bytes.insert(bytes.end(), from, from + piece.length);
    }
    if ((request.send_flags & IBV_SEND_INLINE) != 0 && bytes.size() > pair.setting.cap.max_inline_data)
      return IBV_WC_LOC_LEN_ERR;
    return bytes.size() > device(pair.visible.context).longest_message ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
  }
  /// This end of a queue pair may itself do that to these bytes, by their key.
  bool permits(const FakePair& end, const ibv_sge& bytes, int access) {
    const auto found = regions_.find(bytes.lkey);
    if (found == regions_.end()) return false;
    const FakeRegion& region = *found->second;
    const auto begin = reinterpret_cast<std::uintptr_t>(region.visible.addr);
    return region.visible.pd == end.visible.pd && (region.access & access) == access && bytes.addr >= begin &&
           bytes.addr + bytes.length <= begin + region.visible.length;
  }
  /// Likewise, what is at its other end.
  bool permits_peer(const FakePair& end, const ibv_sge& bytes, int access) {
    return (end.access & access) == access && permits(end, bytes, access);
  }

  /// What a READ asks for, straight into its pieces.
  ibv_wc_status read(const FakePair& from, const FakePair& to, const ibv_send_wr& request) {
    if (from.reads == 0 || from.reads > to.reads_served) return IBV_WC_REM_INV_REQ_ERR;
    std::uint64_t at = request.wr.rdma.remote_addr;
    for (const auto& piece : std::span(request.sg_list, static_cast<std::size_t>(request.num_sge))) {
      if (!permits_peer(to, {at, piece.length, request.wr.rdma.rkey}, IBV_ACCESS_REMOTE_READ))
        return IBV_WC_REM_ACCESS_ERR;
      if (!permits(from, piece, IBV_ACCESS_LOCAL_WRITE)) return IBV_WC_LOC_PROT_ERR;
      std::memcpy(reinterpret_cast<void*>(piece.addr), reinterpret_cast<const void*>(at), piece.length);
      at += piece.length;
    }
    return IBV_WC_SUCCESS;
  }

  /// A word becomes visible at once, and after all before it, as devices have it: who polls it may rely on
  /// that.
  static void write(std::uint64_t to, const std::vector<std::byte>& bytes) {
    std::uint64_t word = 0;
    if (bytes.size() != sizeof word || to % sizeof word != 0) {
      std::memcpy(reinterpret_cast<void*>(to), bytes.data(), bytes.size());
      return;
    }
    std::memcpy(&word, bytes.data(), sizeof word);
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(to)).store(word, std::memory_order_release);
  }

  static bool in_one_partition(const FakePair& one, const FakePair& other) {
    const auto bits = [](const FakePair& pair) { return pair.partition & 0x7fff; };
    return bits(one) == bits(other) && (one.partition > 0x7fff || other.partition > 0x7fff);
  }

  ibv_wc_status deliver(FakePair& from, const ibv_send_wr& request, const std::vector<std::byte>& bytes) {
    const auto peer = pairs_.find(from.peer);
    if (peer == pairs_.end() || peer->second->visible.state < IBV_QPS_RTR ||
        peer->second->visible.state == IBV_QPS_ERR || peer->second->peer != from.visible.qp_num ||
        !in_one_partition(from, *peer->second) || cut_off_.contains(device(from.visible.context).name) ||
        cut_off_.contains(device(peer->second->visible.context).name))
      return IBV_WC_RETRY_EXC_ERR;
    FakePair& to = *peer->second;
    if (request.opcode == IBV_WR_RDMA_READ) return read(from, to, request);
    if (request.opcode != IBV_WR_SEND && !bytes.empty()) {
      const ibv_sge there{request.wr.rdma.remote_addr, static_cast<std::uint32_t>(bytes.size()),
                          request.wr.rdma.rkey};
      if (!permits_peer(to, there, IBV_ACCESS_REMOTE_WRITE)) return IBV_WC_REM_ACCESS_ERR;
      write(request.wr.rdma.remote_addr, bytes);
    }
    return request.opcode == IBV_WR_RDMA_WRITE ? IBV_WC_SUCCESS : signal(to, request, bytes);
  }

  ibv_wc_status signal(FakePair& to, const ibv_send_wr& request, const std::vector<std::byte>& bytes) {
    auto* shared = reinterpret_cast<FakeShared*>(to.setting.srq);
    auto& receives = shared != nullptr ? shared->receives : to.receives;
    auto& pieces = shared != nullptr ? shared->pieces : to.pieces;
    if (receives.empty()) {
      ++counters_.receiver_not_ready;
      return IBV_WC_RNR_RETRY_EXC_ERR;
    }
    ibv_wc completion{};
    completion.wr_id = receives.front().wr_id;
    completion.qp_num = to.visible.qp_num;
    completion.byte_len = static_cast<std::uint32_t>(bytes.size());
    if (request.opcode == IBV_WR_SEND) {
      if (bytes.size() > pieces.front().length) return IBV_WC_REM_INV_REQ_ERR;
      std::memcpy(reinterpret_cast<void*>(pieces.front().addr), bytes.data(), bytes.size());
      completion.opcode = IBV_WC_RECV;
    } else {
      completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
      completion.wc_flags = IBV_WC_WITH_IMM;
      completion.imm_data = request.imm_data;
    }
    receives.pop_front();
    pieces.pop_front();
    complete(to.setting.recv_cq, completion);
    return IBV_WC_SUCCESS;
  }

  void run(FakePair& pair, const ibv_send_wr& request) {
    ibv_wc completion{};
    completion.wr_id = request.wr_id;
    completion.qp_num = pair.visible.qp_num;
    ++pair.held;
    if (pair.visible.state == IBV_QPS_ERR) {
      completion.status = IBV_WC_WR_FLUSH_ERR;
    } else {
      std::vector<std::byte> bytes;
      completion.status = request.opcode == IBV_WR_RDMA_READ ? IBV_WC_SUCCESS : gather(pair, request, bytes);
      if (completion.status == IBV_WC_SUCCESS) completion.status = deliver(pair, request, bytes);
    }
    if (completion.status != IBV_WC_SUCCESS) pair.visible.state = IBV_QPS_ERR;
    const bool signalled = (request.send_flags & IBV_SEND_SIGNALED) != 0;
    counters_.signalled += signalled ? 1 : 0;
    if (!signalled && completion.status == IBV_WC_SUCCESS) return;
    pair.held = 0;
    complete(pair.setting.send_cq, completion);
  }

  const std::vector<FakeDevice> devices_;
  std::mutex mutex_;
  std::set<FakeContext*> contexts_;
  std::set<FakeChannel*> channels_;
  std::map<std::uint32_t, FakeRegion*> regions_;
  std::map<std::uint32_t, FakePair*> pairs_;
  std::set<std::string> cut_off_;
  std::uint32_t next_key_ = 0x1000;
  std::uint32_t next_pair_ = 0x11;
  FakeCounters counters_;
};

}  // namespace

std::shared_ptr<verbs::Verbs> fake_verbs(std::vector<FakeDevice> devices) {
  return std::make_shared<Fake>(std::move(devices));
}
FakeCounters counters_of(verbs::Verbs& fake) { return dynamic_cast<Fake&>(fake).counters(); }
void cut_off(verbs::Verbs& fake, const std::string& device) { dynamic_cast<Fake&>(fake).cut_off(device); }
void take_away(verbs::Verbs& fake, const std::string& name) { dynamic_cast<Fake&>(fake).take_away(name); }
void raise_event(verbs::Verbs& fake, const std::string& device, ibv_event_type event) {
  dynamic_cast<Fake&>(fake).raise(device, event);
}
void raise_pair_event(verbs::Verbs& fake, std::size_t pair, ibv_event_type event) {
  dynamic_cast<Fake&>(fake).raise_of_pair(pair, event);
}

}  // namespace tutti::transport::testing
