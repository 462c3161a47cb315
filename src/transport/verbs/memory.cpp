#include "transport/verbs/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include <tutti/error.hpp>

#include "base/mappings.hpp"
#include "base/system_error.hpp"
#include "transport/verbs/status.hpp"

namespace tutti::transport::verbs {

namespace {

const std::byte* address(std::uintptr_t number) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): pages are counted in numbers
  return reinterpret_cast<const std::byte*>(number);
}

/// Why memory is not registered, and the remedy. EPERM: the limit is 0.
std::string registration_text(int code) {
  if (code != ENOMEM && code != EPERM) return call_text(code);
  return std::generic_category().message(code) + "; raise the limit on locked memory (ulimit -l unlimited)";
}

}  // namespace

std::shared_ptr<const Region> register_region(Verbs& verbs, const Domains& domains, const std::byte* begin,
                                              std::size_t bytes, Access access) {
  const int flags = access == Access::window
                        ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
                    : access == Access::remote_write ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
                    : access == Access::local_write  ? IBV_ACCESS_LOCAL_WRITE
                                                     : 0;
  std::vector<MemoryRegion> handles;
  handles.reserve(domains.size());
  for (ibv_pd* domain : domains) {
    ibv_mr* handle = verbs.reg_mr(domain, const_cast<std::byte*>(begin), bytes, flags);
    if (handle == nullptr) {
      const int code = errno;
      throw Error(ErrorCode::system, fmt::format("registering {} bytes with an RDMA device: {}", bytes,
                                                 registration_text(code)));
    }
    handles.emplace_back(handle, Destroy<ibv_mr, &Verbs::dereg_mr>{&verbs});
  }
  return std::make_shared<const Region>(begin, bytes, std::move(handles));
}

Block::Block(Verbs& verbs, const Domains& domains, std::size_t bytes, Access access)
    : bytes_(whole_pages(bytes)) {
  void* mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw_errno(fmt::format("mapping {} bytes", bytes_));
  data_ = static_cast<std::byte*>(mapped);
  try {
    region_ = register_region(verbs, domains, data_, bytes_, access);
  } catch (...) {
    ::munmap(data_, bytes_);
    throw;
  }
}

// In a child made by fork they may be gone, and others where they were: libibverbs keeps what is registered
// from being copied (kernels before 5.12).
Block::~Block() {
  region_.reset();
  if (generation_ == fork_generation()) ::munmap(data_, bytes_);
}

struct MemoryCache::State {
  using Regions = std::multimap<std::uintptr_t, std::shared_ptr<const Region>>;
  Verbs& verbs;
  Domains domains;
  std::mutex mutex;
  Regions regions;      ///< one a lease, by first address; some may overlap
  bool closed = false;  ///< the cache is gone, and with it all regions; leases may live
  std::uint64_t generation = fork_generation();

  State(Verbs& the_verbs, Domains the_domains) : verbs(the_verbs), domains(std::move(the_domains)) {}
  /// A child made by fork has a copy, whose lock may be held for ever.
  [[nodiscard]] bool inherited() const { return generation != fork_generation(); }
};

class MemoryCache::Lease {
 public:
  /// Under the lock. Nobody would end a region that were there before its lease.
  Lease(std::shared_ptr<State> state, std::uintptr_t begin, std::shared_ptr<const Region> region)
      : state_(std::move(state)), mine_(state_->regions.emplace(begin, std::move(region))) {}
  ~Lease() {
    if (state_->inherited()) return;
    const std::scoped_lock lock(state_->mutex);
    if (!state_->closed) state_->regions.erase(mine_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  std::shared_ptr<State> state_;
  State::Regions::iterator mine_;
};

MemoryCache::MemoryCache(Verbs& verbs, Domains domains)
    : state_(std::make_shared<State>(verbs, std::move(domains))) {}

// Whoever gives a lease up at the same moment is waited for: next, the devices are closed.
MemoryCache::~MemoryCache() {
  if (state_->inherited()) return;
  const std::scoped_lock lock(state_->mutex);
  state_->closed = true;
  state_->regions.clear();
}

std::shared_ptr<MemoryCache::Lease> MemoryCache::acquire(const std::byte* data, std::size_t bytes) {
  const auto begin = address_of(data) / page_bytes() * page_bytes();
  const auto end = whole_pages(address_of(data) + std::max<std::size_t>(bytes, 1));
  auto region =
      register_region(state_->verbs, state_->domains, address(begin), end - begin, Access::local_read);
  const std::scoped_lock lock(state_->mutex);
  return std::make_shared<Lease>(state_, begin, std::move(region));
}

std::shared_ptr<const Region> MemoryCache::find(const std::byte* data, std::size_t bytes) const {
  const std::scoped_lock lock(state_->mutex);
  for (auto it = state_->regions.upper_bound(address_of(data)); it != state_->regions.begin();)
    if ((--it)->second->holds(data, bytes)) return it->second;
  return nullptr;
}

}  // namespace tutti::transport::verbs
