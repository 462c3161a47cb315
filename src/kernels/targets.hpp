/// \file
/// Which instruction sets the kernels are compiled for. Include before anything of Highway.
#pragma once

// Left out because they bring these kernels nothing over their neighbours (SSSE3, AVX3_DL), because no server
// without AVX2 is left to hurry on (SSE4: those take the portable ones), or because vectors without a size at
// compile time cannot be kept in arrays (SVE: NEON serves those processors).
#define TUTTI_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#ifdef __SANITIZE_THREAD__  // kernels of all instruction sets would have the same races
#define HWY_DISABLED_TARGETS (TUTTI_DISABLED_TARGETS | HWY_AVX3)
#else
#define HWY_DISABLED_TARGETS TUTTI_DISABLED_TARGETS
#endif
