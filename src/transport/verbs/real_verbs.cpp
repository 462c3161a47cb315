#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "transport/verbs/verbs.hpp"

namespace tutti::transport::verbs {

namespace {

/// All devices, for the time between a look at the list and the opening of one.
class DeviceList {
 public:
  DeviceList() : list_(::ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (list_ != nullptr) ::ibv_free_device_list(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  [[nodiscard]] ibv_device** begin() const { return list_; }
  [[nodiscard]] ibv_device** end() const { return list_ == nullptr ? list_ : list_ + count_; }

 private:
  int count_ = 0;
  ibv_device** list_;
};

class RealVerbs final : public Verbs {
 public:
  // Without it pages under registration would be copied in the parent after a fork (kernels before 5.12).
  RealVerbs() {
    if (::ibv_is_fork_initialized() == IBV_FORK_DISABLED) ::ibv_fork_init();
  }

  std::vector<std::string> device_names() override {
    std::vector<std::string> names;
    for (ibv_device* device : DeviceList()) names.emplace_back(::ibv_get_device_name(device));
    return names;
  }
  ibv_context* open_device(const std::string& name) override {
    for (ibv_device* device : DeviceList())
      if (name == ::ibv_get_device_name(device)) return ::ibv_open_device(device);
    errno = ENODEV;
    return nullptr;
  }
  int close_device(ibv_context* context) override { return ::ibv_close_device(context); }
  ibv_transport_type transport_type(ibv_context* context) override { return context->device->transport_type; }
  int query_device(ibv_context* context, ibv_device_attr* attributes) override {
    return ::ibv_query_device(context, attributes);
  }
  int query_port(ibv_context* context, int port, ibv_port_attr* attributes) override {
    return ibv_query_port(context, static_cast<std::uint8_t>(port), attributes);
  }
  int query_pkey(ibv_context* context, int port, int index, __be16* key) override {
    return ::ibv_query_pkey(context, static_cast<std::uint8_t>(port), index, key);
  }
  std::vector<ibv_gid_entry> query_gid_table(ibv_context* context) override {
    std::vector<ibv_gid_entry> entries(1024);
    const auto count = ::ibv_query_gid_table(context, entries.data(), entries.size(), 0);
    entries.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return entries;
  }
  int get_async_event(ibv_context* context, ibv_async_event* event) override {
    return ::ibv_get_async_event(context, event);
  }
  void ack_async_event(ibv_async_event* event) override { ::ibv_ack_async_event(event); }

  ibv_pd* alloc_pd(ibv_context* context) override { return ::ibv_alloc_pd(context); }
  int dealloc_pd(ibv_pd* domain) override { return ::ibv_dealloc_pd(domain); }
  ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) override {
    return ::ibv_reg_mr(domain, address, bytes, static_cast<unsigned>(access));
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t iova, int fd,
                        int access) override {
    return ::ibv_reg_dmabuf_mr(domain, offset, bytes, iova, fd, access);
  }
  int dereg_mr(ibv_mr* region) override { return ::ibv_dereg_mr(region); }

  ibv_comp_channel* create_comp_channel(ibv_context* context) override {
    return ::ibv_create_comp_channel(context);
  }
  int destroy_comp_channel(ibv_comp_channel* channel) override { return ::ibv_destroy_comp_channel(channel); }
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) override {
    return ::ibv_create_cq(context, entries, nullptr, channel, 0);
  }
  int destroy_cq(ibv_cq* queue) override { return ::ibv_destroy_cq(queue); }
  int poll_cq(ibv_cq* queue, int count, ibv_wc* completions) override {
    return ::ibv_poll_cq(queue, count, completions);
  }
  int req_notify_cq(ibv_cq* queue) override { return ::ibv_req_notify_cq(queue, 0); }
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue) override {
    void* context = nullptr;
    return ::ibv_get_cq_event(channel, queue, &context);
  }
  void ack_cq_events(ibv_cq* queue, unsigned count) override { ::ibv_ack_cq_events(queue, count); }

  ibv_srq* create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) override {
    return ::ibv_create_srq(domain, attributes);
  }
  int destroy_srq(ibv_srq* queue) override { return ::ibv_destroy_srq(queue); }
  int post_srq_recv(ibv_srq* queue, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    return ::ibv_post_srq_recv(queue, first, bad);
  }
  ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) override {
    return ::ibv_create_qp(domain, attributes);
  }
  int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) override {
    return ::ibv_modify_qp(pair, attributes, mask);
  }
  int destroy_qp(ibv_qp* pair) override { return ::ibv_destroy_qp(pair); }
  int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) override {
    return ::ibv_post_send(pair, first, bad);
  }
  int post_recv(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    return ::ibv_post_recv(pair, first, bad);
  }
};

std::mutex mutex;
std::shared_ptr<Verbs> replacement;

}  // namespace

std::shared_ptr<Verbs> real_verbs() {
  {
    const std::scoped_lock lock(mutex);
    if (replacement) return replacement;
  }
  // Never destroyed: static objects of a program may make communicators when they go.
  static const auto* const only = new std::shared_ptr<RealVerbs>(std::make_shared<RealVerbs>());
  return *only;
}

void replace_verbs(std::shared_ptr<Verbs> verbs) {
  const std::scoped_lock lock(mutex);
  replacement = std::move(verbs);
}

}  // namespace tutti::transport::verbs
