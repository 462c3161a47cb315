target_link_libraries(${test} PRIVATE CUDA::cudart_static)
