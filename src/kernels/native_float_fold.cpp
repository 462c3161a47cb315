#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native_float_fold.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/families.hpp"
#include "kernels/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

Fold native_float_fold_here(DataType type, ReduceOp op) {
  return type == DataType::float64 ? floats_by_op<Native<double>>(op) : floats_by_op<Native<float>>(op);
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

HWY_EXPORT(native_float_fold_here);

Fold native_float_fold(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(native_float_fold_here)(type, op);
}

}  // namespace tutti::kernels
#endif
