#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/small_float_fold.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/families.hpp"
#include "kernels/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

Fold small_float_fold_here(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::float16:
      return floats_by_op<Float16>(op);
    case DataType::bfloat16:
      return floats_by_op<BFloat16>(op);
    case DataType::fp8_e4m3:
      return floats_by_op<E4M3>(op);
    default:
      return floats_by_op<E5M2>(op);
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

HWY_EXPORT(small_float_fold_here);

Fold small_float_fold(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(small_float_fold_here)(type, op);
}

}  // namespace tutti::kernels
#endif
