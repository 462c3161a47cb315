target_link_libraries(${test} PRIVATE CUDA::cudart_static)
# Processes on one GPU take turns, each with kernels that wait.
set(properties RESOURCE_LOCK gpu)
