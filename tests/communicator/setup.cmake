# A library that stands in for CUDA's driver.
add_library(communicator-cuda-fake MODULE ${CMAKE_CURRENT_LIST_DIR}/cuda_fake/driver.cpp)
target_link_options(communicator-cuda-fake PRIVATE -Wl,-soname,libcuda.so.1)
target_compile_features(communicator-cuda-fake PRIVATE cxx_std_20)
tutti_strict(communicator-cuda-fake)
set_property(SOURCE ${CMAKE_CURRENT_LIST_DIR}/host_buffers_test.cpp
  PROPERTY COMPILE_DEFINITIONS TUTTI_FAKE_CUDA="$<TARGET_FILE:communicator-cuda-fake>")
add_dependencies(${test} communicator-cuda-fake)
