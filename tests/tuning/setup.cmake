find_package(nlohmann_json REQUIRED)
target_link_libraries(${test} PRIVATE nlohmann_json::nlohmann_json)
target_compile_definitions(${test} PRIVATE TUTTI_TUNE="$<TARGET_FILE:tutti-tune>")
add_dependencies(${test} tutti-tune)
