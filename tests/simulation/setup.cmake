# The program itself.
if(TUTTI_BUILD_TOOLS)
  target_compile_definitions(${test} PRIVATE TUTTI_SIM="$<TARGET_FILE:tutti-sim>")
  add_dependencies(${test} tutti-sim)
endif()
