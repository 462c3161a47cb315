#include "gpu/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>

#include <tutti/error.hpp>

#include "communicator/check.hpp"
#include "gpu/messages.hpp"
#include "transport/fail_together.hpp"

namespace tutti::detail {

using gpu::OnDevice;
using gpu::Pointer;
using gpu::Stream;

void GpuState::check_setting(const gpu::Setting& setting) {
  if (setting.options.blocks < 1 || setting.options.blocks > gpu::device::max_blocks)
    throw Error(ErrorCode::invalid_argument, fmt::format("GpuOptions::blocks is {}; it must be 1 to {}",
                                                         setting.options.blocks, gpu::device::max_blocks));
  if (setting.group.size > gpu::device::max_ranks)
    throw Error(ErrorCode::unsupported, fmt::format("{} ranks; GPU buffers work among {} at most",
                                                    setting.group.size, gpu::device::max_ranks));
}

GpuState::GpuState(std::shared_ptr<gpu::Api> api, gpu::Setting setting)
    : api_(std::move(api)),
      setting_(std::move(setting)),
      connection_(api_, setting_),
      regions_(api_, setting_, connection_) {
  transport::do_together(setting_.group, [this] {
    planner_ = std::make_unique<gpu::Planner>(api_, setting_, connection_);
    sentry_ = std::make_unique<gpu::Sentry>(setting_, connection_.control());
    timeline_ = std::make_unique<gpu::Timeline>(api_);
  });
  if (!connection_.needs_network()) return;
  network_ = std::make_unique<gpu::NetworkLines>(api_, setting_, connection_.mailbox(), connection_.lines());
  try {
    transport::do_together(setting_.group, [this] { start_proxy(); });
  } catch (...) {
    proxy_.reset();
    network_->abandon();
    await_proxies();
    throw;
  }
}

void GpuState::start_proxy() {
  if (network_->lines().empty()) return;
  connection_.use(network_->lines());
  proxy_ = std::make_unique<gpu::Proxy>(
      network_->network(), gpu::Proxy::Device{api_, connection_.device(), network_->flushes()},
      connection_.mailbox(), network_->lines(), [this](const Error& error) {
        sentry_->fail(error.code() == ErrorCode::peer_lost ? setting_.explain_loss(error) : error);
      });
}

// Of ranks that all fail: until none has a proxy, which would take the end of this rank's network for its
// death.
void GpuState::await_proxies() const {
  try {
    static_cast<void>(setting_.group.all_gather({}));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the communicator has failed, too
  }
}

// Others may still write into this rank's arena when its own kernels are through: it goes when all are. Where
// that cannot be known, it stays.
GpuState::~GpuState() {
  try {
    while_it_ends_.emplace(*api_, connection_.device());
    timeline_->finish();
    sentry_->check();
    if (std::uncaught_exceptions() != exceptions_)
      abandon();
    else
      meet();
  } catch (...) {
    abandon();
  }
  proxy_.reset();
}

void GpuState::abandon() noexcept {
  regions_.abandon();
  if (network_ != nullptr) network_->abandon();
}

// When kernels are through everywhere, nobody needs the network any more, nor the memory of others; when
// nobody looks at it, and all have closed what is not theirs, it may go.
void GpuState::meet() {
  setting_.meet(Within::gpu_end);
  proxy_.reset();
  regions_.close_peers();
  connection_.close_peers();
  setting_.meet(Within::gpu_end);
  connection_.end();
}

void GpuState::check_pointer(const Call& call, const void* pointer, std::size_t bytes, const char* which) {
  if (bytes == 0) return;
  if (reinterpret_cast<std::uintptr_t>(pointer) % size_of(call.type) != 0)
    refuse(call, fmt::format("the {} is not aligned to its elements of {} bytes", which, size_of(call.type)));
  const Pointer found = api_->look_at(pointer);
  if (found.kind == Pointer::Kind::host)
    refuse(
        call,
        fmt::format(
            "the {} is plain host memory, or was freed; GPU calls take device, managed or page-locked memory "
            "(for host memory call the communicator itself)",
            which));
  if (found.kind == Pointer::Kind::device && found.device != connection_.device())
    refuse(call, fmt::format("the {} is memory of device {}; this Gpu is device {}", which, found.device,
                             connection_.device()));
  static_cast<void>(regions_.holds(call, pointer, bytes, which));
}

// Between processes all ranks must say the same, which they can only if all pass such memory.
bool GpuState::reachable(const Call& call, const Sizes& sizes) const {
  const bool held = regions_.holds(call, call.in, sizes.in_bytes, "input") &&
                    regions_.holds(call, call.out, sizes.out_bytes, "output");
  return connection_.one_address_space() || (held && connection_.all_by_device());
}

gpu::Regions::Allocated GpuState::allocate(std::size_t bytes) {
  const OnDevice here = on_device();
  sentry_->check();
  setting_.meet(Within::gpu_allocate);
  // Kernels read what is about to change.
  transport::do_together(setting_.group, [&] { timeline_->finish(); });
  return regions_.allocate(bytes);
}

void GpuState::check_registrable(const void* data, std::size_t bytes) {
  const Pointer found = data == nullptr || bytes == 0 ? Pointer{} : api_->look_at(data);
  if (found.kind == Pointer::Kind::device && found.device == connection_.device()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("register_memory takes memory of device {}; this is {}", connection_.device(),
                          bytes == 0 || data == nullptr         ? "none (null, or 0 bytes)"
                          : found.kind == Pointer::Kind::device ? fmt::format("of device {}", found.device)
                                                                : "host or managed memory, or was freed"));
}

gpu::Regions::Token GpuState::register_memory(void* data, std::size_t bytes) {
  const OnDevice here = on_device();
  sentry_->check();
  setting_.meet(Within::gpu_register_memory);
  transport::do_together(setting_.group, [&] {
    check_registrable(data, bytes);
    timeline_->finish();
  });
  return regions_.add({static_cast<std::byte*>(data), bytes});
}

void GpuState::check_stream(const Call& call, Stream stream) {
  if (api_->is_common(stream)) {
    if (connection_.shares_device())
      refuse(call,
             "the default stream runs kernels of all threads one after the other, and other ranks are "
             "threads on this device: every rank needs a stream of its own, of cudaStreamNonBlocking");
    return;
  }
  // Of a stream in a capture nobody may ask; CUDA refuses launches for another device than the stream's.
  if (api_->is_capturing(stream)) return;
  if (const int device = api_->stream_device(stream); device != connection_.device())
    refuse(call, fmt::format("the stream belongs to device {}; this Gpu is device {}", device,
                             connection_.device()));
}

Sizes GpuState::admit(const Call& call, Stream stream) {
  const OnDevice here = on_device();
  sentry_->check();
  setting_.ensure_usable();
  const Sizes sizes = tutti::check(call, rank(), size());
  check_pointer(call, call.in, sizes.in_bytes, "input");
  check_pointer(call, call.out, sizes.out_bytes, "output");
  check_stream(call, stream);
  return sizes;
}

void GpuState::make_ready(std::span<const Call> calls, Stream stream) {
  const OnDevice here = on_device();
  static_cast<void>(prepare_all(calls, stream));
}

void GpuState::enqueue(std::span<const Call> calls, Stream stream) {
  const OnDevice here = on_device();
  std::vector<Prepared> all = prepare_all(calls, stream);
  launch(all, stream);
}

std::vector<GpuState::Prepared> GpuState::prepare_all(std::span<const Call> calls, Stream stream) {
  std::vector<Sizes> sizes;
  std::vector<Call> messages;
  std::size_t own_sends = 0, own_receives = 0;
  for (const Call& call : calls) {
    sizes.push_back(admit(call, stream));
    if (!is_point_to_point(call)) continue;
    messages.push_back(call);
    if (call.root == rank()) ++(call.operation == Operation::send ? own_sends : own_receives);
  }
  if (own_sends != own_receives)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("rank {} sends itself {} message(s) and receives {} in one group", rank(),
                            own_sends, own_receives));
  planner_->trim(*timeline_);
  std::vector<Prepared> all;
  all.reserve(calls.size());
  if (!messages.empty())
    for (const auto& some : gpu::message_launches(messages, size())) all.push_back(prepare_messages(some));
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (!is_point_to_point(calls[i])) all.push_back(prepare_collective(calls[i], sizes[i]));
  return all;
}

void GpuState::enqueue_counted(const Call& call, const DeviceBlocks& in, const DeviceBlocks& out,
                               Stream stream) {
  const OnDevice here = on_device();
  sentry_->check();
  setting_.ensure_usable();
  const std::size_t element = size_of(call.type), ranks = static_cast<std::size_t>(size());
  const std::size_t in_bytes = size_in_bytes(call, in.room), out_bytes = size_in_bytes(call, out.room);
  check_pointer(call, call.in, in_bytes, "input");
  check_pointer(call, call.out, out_bytes, "output");
  if (overlap(call.in, in_bytes, call.out, out_bytes)) refuse(call, "input and output overlap");
  check_stream(call, stream);
  Call words{.operation = Operation::all_to_all_v, .type = DataType::uint64};
  for (const std::uint64_t* counts : {in.counts, out.counts}) {
    if (counts == nullptr) refuse(call, "there are no counts");
    check_pointer(words, counts, ranks * sizeof *counts, "array of counts");
  }
  for (const std::uint64_t* displacements : {in.displacements, out.displacements})
    if (displacements != nullptr)
      check_pointer(words, displacements, ranks * sizeof *displacements, "array of displacements");
  gpu::device::Launch launch;
  launch.input = static_cast<const std::byte*>(call.in);
  launch.output = static_cast<std::byte*>(call.out);
  launch.counts = {
      {in.counts, in.displacements, in.room}, {out.counts, out.displacements, out.room}, element};
  planner_->trim(*timeline_);
  Prepared prepared = prepare(planner_->counted_exchange(call.type), launch);
  this->launch({&prepared, 1}, stream);
}

std::byte* GpuState::at_least(Growing& memory, std::size_t bytes) {
  if (bytes > memory.bytes) {
    const std::size_t room = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
    memory.blocks.push_back(gpu::allocate(api_, room));
    memory.bytes = room;
  }
  return memory.blocks.empty() ? nullptr : memory.blocks.back().get();
}

GpuState::Prepared GpuState::prepare(gpu::Plan& plan, const gpu::device::Launch& buffers) {
  Prepared prepared{&plan, buffers, {}};
  plan.last_launch = launched_;  // not the first to be dropped, should others be prepared before it runs
  gpu::device::Launch& launch = prepared.launch;
  launch.scratch = plan.scratch_bytes == 0 ? nullptr : at_least(scratch_, plan.scratch_bytes);
  launch.program = reinterpret_cast<const gpu::device::Program*>(plan.program);
  launch.program_bytes = static_cast<std::uint32_t>(plan.flat_bytes);
  launch.group = connection_.membership();
  launch.arena = connection_.arena_memory();
  launch.tag = plan.tag;
  launch.type = plan.type;
  launch.op = plan.op;
  return prepared;
}

GpuState::Prepared GpuState::prepare_collective(const Call& call, const Sizes& sizes) {
  gpu::Plan& plan = planner_->collective(call, sizes, reachable(call, sizes));
  gpu::device::Launch launch;
  launch.input = static_cast<const std::byte*>(call.in);
  launch.output = static_cast<std::byte*>(call.out);
  Prepared prepared = prepare(plan, launch);
  if (plan.copies_input) copy_input(prepared, call, sizes);
  return prepared;
}

void GpuState::copy_input(Prepared& prepared, const Call& call, const Sizes& sizes) {
  const auto parts = read_of_input(call, sizes, rank(), size());
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.bytes;
  if (bytes == 0) return;
  std::byte* to = at_least(input_copy_, bytes);
  prepared.launch.input = to;
  for (const auto& part : parts) {
    gpu::device::Scale& copy = prepared.copies.emplace_back();
    copy.from = static_cast<const std::byte*>(call.in) + part.offset;
    copy.to = to;
    copy.bytes = part.bytes;
    copy.factor = prepared.plan->key.scaled ? call.reduction.factor : 1.0;
    copy.type = call.type;
    to += part.bytes;
  }
}

GpuState::Prepared GpuState::prepare_messages(std::span<const Call> calls) {
  std::vector<const Call*> own_sends;
  for (const Call& call : calls)
    if (call.root == rank() && call.operation == Operation::send) own_sends.push_back(&call);
  std::size_t next = 0;
  for (const Call& call : calls)
    if (call.root == rank() && call.operation == Operation::receive &&
        (own_sends[next]->count != call.count || own_sends[next++]->type != call.type))
      refuse(call, "it does not match the send of this rank to itself");
  gpu::device::Launch launch;
  for (std::size_t i = 0; i < calls.size(); ++i)
    launch.buffers[i] = static_cast<std::byte*>(
        calls[i].operation == Operation::send ? const_cast<void*>(calls[i].in) : calls[i].out);
  return prepare(planner_->messages(calls), launch);
}

void GpuState::launch(std::span<Prepared> all, Stream stream) {
  const gpu::Capture capture = api_->capture_of(stream);
  timeline_->follow(stream, capture);
  try {
    for (Prepared& one : all)
      if (!one.plan->empty) launch(one, capture.has_value(), stream);
  } catch (...) {
    if (!capture) timeline_->mark(stream, capture, launched_);  // what comes next follows those launched
    throw;
  }
  timeline_->mark(stream, capture, launched_);
}

void GpuState::launch(Prepared& prepared, bool captured, Stream stream) {
  gpu::Plan& plan = *prepared.plan;
  for (const auto& copy : prepared.copies) api_->launch_scale(copy, stream);
  prepared.launch.sequence = launched_ = sentry_->announce_launch(plan.title);
  plan.last_launch = launched_;
  plan.captured = plan.captured || captured;
  api_->launch(prepared.launch, plan.lanes, plan.slices, stream);
  if (proxy_ != nullptr) proxy_->wake();
}

void GpuState::all_reduce_rms_norm(const AllReduceRmsNorm& arguments, Stream stream) {
  const OnDevice here = on_device();
  Call call;  // as which it is checked
  call.operation = Operation::all_reduce;
  call.type = arguments.type;
  call.in = arguments.in;
  call.out = arguments.residual_out;
  if (__builtin_mul_overflow(arguments.tokens, arguments.hidden, &call.count))
    refuse(call, "tokens times hidden overflows");
  if (call.type != DataType::float32 && call.type != DataType::float16 && call.type != DataType::bfloat16)
    refuse(call, "a norm is taken of float32, float16 and bfloat16 only");
  const Sizes sizes = admit(call, stream);
  if (call.count == 0) return;
  if (arguments.residual == nullptr || arguments.weight == nullptr || arguments.out == nullptr)
    refuse(call, "the residual, the weight or the normalized output is null");
  if (overlap(arguments.out, sizes.out_bytes, arguments.residual_out, sizes.out_bytes))
    refuse(call, "the sums and the normalized output overlap");
  const std::size_t row = arguments.hidden * size_of(call.type);
  for (const void* out : {arguments.out, arguments.residual_out}) {
    for (const void* in : {arguments.in, arguments.residual})
      if (in != out && overlap(in, sizes.in_bytes, out, sizes.out_bytes))
        refuse(call, "an output overlaps an input, but is not the same");
    if (overlap(arguments.weight, row, out, sizes.out_bytes)) refuse(call, "an output overlaps the weight");
  }
  check_pointer(call, arguments.residual, sizes.in_bytes, "residual");
  check_pointer(call, arguments.weight, row, "weight");
  check_pointer(call, arguments.out, sizes.in_bytes, "normalized output");
  gpu::device::Launch launch;
  launch.input = static_cast<const std::byte*>(arguments.in);
  launch.output = static_cast<std::byte*>(arguments.residual_out);
  launch.buffers[gpu::device::residual_buffer] =
      static_cast<std::byte*>(const_cast<void*>(arguments.residual));
  launch.buffers[gpu::device::weight_buffer] = static_cast<std::byte*>(const_cast<void*>(arguments.weight));
  launch.buffers[gpu::device::normalized_buffer] = static_cast<std::byte*>(arguments.out);
  launch.epsilon = arguments.epsilon;
  planner_->trim(*timeline_);
  Prepared prepared = prepare(planner_->norm(arguments), launch);
  this->launch({&prepared, 1}, stream);
}

// Of a child made by fork neither the device nor the sentry may be asked: the lock of the latter may be held
// for ever there.
void GpuState::refuse_forked_copy() const {
  if (is_forked_copy()) setting_.ensure_usable();
}

OnDevice GpuState::on_device() const {
  refuse_forked_copy();
  return {*api_, connection_.device()};
}

void GpuState::check() {
  refuse_forked_copy();
  sentry_->check();
  const auto why = setting_.interrupted();
  if (!why) return;
  sentry_->stop(*why);  // whoever was told gets no further call through
  throw Error(*why);
}

std::string GpuState::explain() const {
  std::string text = connection_.description();
  if (proxy_ != nullptr) text += "\n  messages over the network:" + network_->description();
  return text;
}

std::string GpuState::explain(const Call& call) {
  if (is_point_to_point(call)) return describe(call) + ": slots, side by side with the rest of its group";
  const OnDevice here = on_device();
  const Sizes sizes = tutti::check(call, rank(), size(), Pointers::may_be_null);
  planner_->trim(*timeline_);
  return planner_->collective(call, sizes, reachable(call, sizes)).description;
}

}  // namespace tutti::detail
