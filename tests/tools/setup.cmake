# The parts of tutti-perf for unit tests, and the programs themselves.
find_package(nlohmann_json REQUIRED)
find_program(TUTTI_MPIRUN NAMES mpirun.openmpi)
target_link_libraries(${test} PRIVATE tutti-perf-parts nlohmann_json::nlohmann_json)
target_compile_definitions(${test} PRIVATE TUTTI_PERF="$<TARGET_FILE:tutti-perf>"
  TUTTI_WINDOW_PERF="$<TARGET_FILE:tutti-window-perf>" TUTTI_MPIRUN="${TUTTI_MPIRUN}" TUTTI_SANITIZE="${TUTTI_SANITIZE}")
add_dependencies(${test} tutti-perf tutti-window-perf)
