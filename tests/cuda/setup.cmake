target_link_libraries(${test} PRIVATE CUDA::cudart_static)
# Processes on one GPU take turns, each with kernels that wait. One that hangs shall not take everybody's time.
set(properties RESOURCE_LOCK gpu TIMEOUT 60)
