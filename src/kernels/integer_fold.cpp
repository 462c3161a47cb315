#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer_fold.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/families.hpp"
#include "kernels/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

/// What is rare, and has no vector instructions, leaves the vectors here.
template <class Format, class Op, DataType kType, ReduceOp kOp>
void fold_integers_general(Sinks sinks, Sources sources, std::size_t count, const FoldModifiers& modifiers) {
  const bool vectors = !does_arithmetic(modifiers, sources.size());
  const Fold fold = vectors ? &fold_general<Format, Op> : modified_integer_fold(kType, kOp);
  fold(sinks, sources, count, modifiers);
}

template <class Format, class Op, DataType kType, ReduceOp kOp>
constexpr Fold fold_integers() {
  return &fold_elements<Format, Op, &fold_integers_general<Format, Op, kType, kOp>>;
}

/// Sums and products wrap, so that the sign does not matter to them. No instruction multiplies bytes.
template <class T, DataType kType>
Fold integers_by_op(ReduceOp op) {
  using Unsigned = Native<std::make_unsigned_t<T>>;
  using Factor = std::conditional_t<sizeof(T) == 1, Widened<std::uint8_t, std::uint16_t>, Unsigned>;
  switch (op) {
    case ReduceOp::product:
      return fold_integers<Factor, Product, kType, ReduceOp::product>();
    case ReduceOp::min:
      return fold_integers<Native<T>, Minimum, kType, ReduceOp::min>();
    case ReduceOp::max:
      return fold_integers<Native<T>, Maximum, kType, ReduceOp::max>();
    default:
      return fold_integers<Unsigned, Sum, kType, ReduceOp::sum>();
  }
}

Fold integer_fold_here(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::int8:
      return integers_by_op<std::int8_t, DataType::int8>(op);
    case DataType::uint8:
      return integers_by_op<std::uint8_t, DataType::uint8>(op);
    case DataType::int32:
      return integers_by_op<std::int32_t, DataType::int32>(op);
    case DataType::uint32:
      return integers_by_op<std::uint32_t, DataType::uint32>(op);
    case DataType::int64:
      return integers_by_op<std::int64_t, DataType::int64>(op);
    default:
      return integers_by_op<std::uint64_t, DataType::uint64>(op);
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

HWY_EXPORT(integer_fold_here);

Fold integer_fold(DataType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(integer_fold_here)(type, op); }

}  // namespace tutti::kernels
#endif
