# The library's objects over the emulated device of tests/gpu, and the library itself.
find_path(TUTTI_NCCL_HEADER nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
find_path(TUTTI_CUDA_HEADER cuda_runtime.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)  # which it includes
target_sources(${test} PRIVATE $<TARGET_OBJECTS:tutti-nccl-objects> 
  ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulated_api.cpp ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulated_api_memory.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/gpu/few_threads.cpp)
target_compile_options(${test} PRIVATE -ffp-contract=off)
target_compile_definitions(${test} PRIVATE TUTTI_NCCL_LIBRARY="$<TARGET_FILE:tutti-nccl>"
  TUTTI_NCCL_PAGE="${PROJECT_SOURCE_DIR}/docs/nccl.md" TUTTI_NCCL_HEADER_DIR="${TUTTI_NCCL_HEADER}")
target_link_libraries(${test} PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(${test} tutti-nccl)
set_property(SOURCE ${folder}/toolkit_test.cpp PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)  # the same names twice
if(TUTTI_NCCL_HEADER AND TUTTI_CUDA_HEADER)
  # Its warnings are NVIDIA's. It may be in /usr/include, which must stay behind the standard library's.
  set_property(SOURCE ${folder}/toolkit_test.cpp PROPERTY COMPILE_OPTIONS
    -idirafter${TUTTI_NCCL_HEADER} -idirafter${TUTTI_CUDA_HEADER} -DTUTTI_HAVE_NCCL_HEADER=1)
endif()
