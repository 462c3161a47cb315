/// \file
/// How device code is marked. nvcc makes machine code of it; any other compiler makes functions that host
/// threads run, so that its protocols can be tested, and looked at by sanitizers, without a GPU.
#pragma once

#ifdef __CUDACC__
#define TUTTI_DEVICE __device__ __forceinline__
/// For what is long and not a part of short steps. Its arguments are few and no references to variables: a
/// call with others would have a stack.
#define TUTTI_DEVICE_CALL __device__ __noinline__ inline
/// The next loop's count is a constant, and what it indexes is to lie in registers: nvcc leaves loops of 16
/// as they are, and their arrays on a stack.
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_DEVICE inline
#define TUTTI_DEVICE_CALL inline
#define TUTTI_UNROLL
#endif
