# The parts of tutti-tune for unit tests, and the program itself.
find_package(nlohmann_json REQUIRED)
target_link_libraries(${test} PRIVATE tutti-tune-parts nlohmann_json::nlohmann_json)
target_compile_definitions(${test} PRIVATE TUTTI_TUNE="$<TARGET_FILE:tutti-tune>")
add_dependencies(${test} tutti-tune)
