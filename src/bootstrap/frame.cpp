#include "bootstrap/frame.hpp"

#include <algorithm>
#include <utility>

#include "bootstrap/wire.hpp"

namespace tutti::bootstrap {
namespace {

constexpr std::size_t longest_text = 8 << 10, longest_call = 512, most_calls = 64;
static_assert(longest_text + most_named_ranks * sizeof(Rank) + 64 <= largest_small_payload);
static_assert(most_calls * (longest_call + 32) + 64 <= largest_small_payload);

}  // namespace

Frame make_frame(FrameKind kind, std::span<const std::byte> payload) {
  return std::make_shared<const Bytes>(
      Writer().put(kind).put(std::uint32_t{0}).put(std::uint64_t{payload.size()}).put(payload).take());
}

Frame make_frame(FrameKind kind, const Fault& fault) {
  return make_frame(
      kind, Writer().put(fault.code).put(fault.ranks, most_named_ranks).put(fault.text, longest_text).take());
}

Frame make_frame(const Notice& notice) {
  return make_frame(FrameKind::notice, Writer()
                                           .put(notice.kind)
                                           .put(notice.rank)
                                           .put(notice.communicator)
                                           .put(notice.code)
                                           .put(notice.ranks, most_named_ranks)
                                           .put(notice.text, longest_text)
                                           .take());
}

Frame make_frame(const StuckReport& report) {
  const auto newest = std::span(report.calls).last(std::min(most_calls, report.calls.size()));
  Writer out;
  out.put(report.communicator).put(report.me).put(static_cast<std::uint32_t>(newest.size()));
  for (const auto& call : newest) out.put(call.sequence).put(call.tag).put(call.text, longest_call);
  return make_frame(FrameKind::stuck, out.take());
}

Frame make_contribution(std::uint64_t number, std::span<const std::byte> bytes) {
  return make_frame(FrameKind::contribute, Writer().put(number).put(bytes).take());
}

Frame make_gathered(std::uint64_t number, const std::vector<Bytes>& contributions) {
  Writer out;
  out.put(number);
  for (const auto& one : contributions) out.put(std::uint64_t{one.size()}).put(one);
  return make_frame(FrameKind::gathered, out.take());
}

Fault to_fault(const Error& error) {
  const std::string prefix = "tutti: " + std::string(name(error.code())) + ": ";
  std::string text = error.what();
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return {error.code(), error.ranks(), std::move(text)};
}

Error with_context(const Error& error, const std::string& words, std::vector<Rank> ranks) {
  if (!error.ranks().empty()) ranks = error.ranks();
  return {error.code(), words + to_fault(error).text, std::move(ranks)};
}

std::string joining(Rank rank, int size) {
  return "rank " + std::to_string(rank) + " joining a group of " + std::to_string(size);
}

Error while_connecting(const Error& error, const std::string& words, Rank me, Rank peer) {
  return with_context(error, words, {error.code() == ErrorCode::system ? me : peer});
}

Fault read_fault(std::span<const std::byte> payload) {
  Reader in(payload);
  Fault fault;
  fault.code = in.get<ErrorCode>();
  fault.ranks = in.ranks();
  fault.text = in.text();
  if (fault.code > ErrorCode::forked) throw Malformed{};
  return fault;
}

Notice read_notice(std::span<const std::byte> payload) {
  Reader in(payload);
  Notice notice;
  notice.kind = in.get<Notice::Kind>();
  notice.rank = in.get<Rank>();
  notice.communicator = in.get<std::uint64_t>();
  notice.code = in.get<ErrorCode>();
  notice.ranks = in.ranks();
  notice.text = in.text();
  if (notice.kind > Notice::Kind::closed || notice.code > ErrorCode::forked) throw Malformed{};
  return notice;
}

StuckReport read_stuck(std::span<const std::byte> payload) {
  Reader in(payload);
  StuckReport report;
  report.communicator = in.get<std::uint64_t>();
  report.me = in.get<Rank>();
  const auto count = in.get<std::uint32_t>();
  if (count > most_calls) throw Malformed{};
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& call = report.calls.emplace_back();
    call.sequence = in.get<std::uint64_t>();
    call.tag = in.get<std::uint32_t>();
    call.text = in.text();
  }
  return report;
}

std::vector<Bytes> read_gathered(std::span<const std::byte> payload, int size) {
  Reader in(payload);
  std::vector<Bytes> all;
  for (int rank = 0; rank < size; ++rank) {
    const auto bytes = in.get(in.get<std::uint64_t>());
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

}  // namespace tutti::bootstrap
