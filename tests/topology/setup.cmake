# A library that stands in for NVML, and the program itself.
add_library(topology-nvml-fake MODULE ${CMAKE_CURRENT_LIST_DIR}/nvml_fake/nvml.cpp)
target_compile_features(topology-nvml-fake PRIVATE cxx_std_20)
tutti_strict(topology-nvml-fake)
find_program(TUTTI_MPIRUN NAMES mpirun.openmpi)
target_compile_definitions(${test} PRIVATE TUTTI_FAKE_NVML="$<TARGET_FILE:topology-nvml-fake>"
  TUTTI_MPIRUN="${TUTTI_MPIRUN}")
add_dependencies(${test} topology-nvml-fake)
if(TUTTI_BUILD_TOOLS)
  target_compile_definitions(${test} PRIVATE TUTTI_TOPO="$<TARGET_FILE:tutti-topo>")
  add_dependencies(${test} tutti-topo)
endif()
