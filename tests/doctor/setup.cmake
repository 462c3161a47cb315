# The parts of tutti-doctor for unit tests, and the program itself.
find_program(TUTTI_MPIRUN NAMES mpirun.openmpi)
target_link_libraries(${test} PRIVATE tutti-doctor-parts)
target_compile_definitions(${test} PRIVATE TUTTI_DOCTOR="$<TARGET_FILE:tutti-doctor>"
  TUTTI_MPIRUN="${TUTTI_MPIRUN}")
add_dependencies(${test} tutti-doctor)
