# The scripts, with programs that only pretend to measure.
find_program(TUTTI_PYTHON python3)
if(TUTTI_PYTHON AND NOT TUTTI_SANITIZE)
  add_test(NAME bench.scripts COMMAND ${TUTTI_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bench/scripts_test.py)
  set_tests_properties(bench.scripts PROPERTIES LABELS bench TIMEOUT 300)
endif()
