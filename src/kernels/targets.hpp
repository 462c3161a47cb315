/// \file
/// Which instruction sets the kernels are compiled for. Include before anything of Highway.
#pragma once

// Left out because they bring these kernels nothing over their neighbours (SSSE3, AVX3_DL), because no server
// without AVX2 is left to hurry on (SSE4: those take SSE2), or because vectors without a size at compile time
// cannot be kept in arrays (SVE: NEON serves those processors).
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
