/// \file
/// How device code is marked. nvcc makes machine code of it; any other compiler makes functions that host
/// threads run, so that its protocols can be tested, and looked at by sanitizers, without a GPU.
#pragma once

#ifdef __CUDACC__
#define TUTTI_DEVICE __device__ inline
/// Too long to be worth copying into every caller.
#define TUTTI_DEVICE_CALL __device__ __noinline__
#else
#define TUTTI_DEVICE inline
#define TUTTI_DEVICE_CALL inline
#endif
