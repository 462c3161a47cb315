#include "kernels/targets.hpp"

#include "hwy/highway.h"
#include "kernels/families.hpp"

namespace tutti::kernels {

Fold fold_for(DataType type, ReduceOp op) noexcept {
  switch (type) {
    case DataType::float32:
    case DataType::float64:
      return native_float_fold(type, op);
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::fp8_e4m3:
    case DataType::fp8_e5m2:
      return small_float_fold(type, op);
    default:
      return integer_fold(type, op);
  }
}

const char* instruction_set() noexcept {
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);  // a lower bit is a better target
}

}  // namespace tutti::kernels
