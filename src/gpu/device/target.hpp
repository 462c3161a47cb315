/// \file
/// How device code is marked. nvcc makes machine code of it; any other compiler makes functions that host
/// threads run, so that its protocols can be tested, and looked at by sanitizers, without a GPU.
#pragma once

#ifdef __CUDACC__
#define TUTTI_DEVICE __device__ __forceinline__
/// For what is long and not a part of short steps. Its arguments are few and no references to variables: a
/// call with others would have a stack.
#define TUTTI_DEVICE_CALL __device__ __noinline__ inline
#else
#define TUTTI_DEVICE inline
#define TUTTI_DEVICE_CALL inline
#endif
