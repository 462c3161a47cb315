# The parts of tutti-perf for unit tests, and the programs themselves.
find_package(nlohmann_json REQUIRED)
target_link_libraries(${test} PRIVATE tutti-perf-parts nlohmann_json::nlohmann_json)
target_compile_definitions(${test} PRIVATE TUTTI_PERF="$<TARGET_FILE:tutti-perf>"
  TUTTI_WINDOW_PERF="$<TARGET_FILE:tutti-window-perf>")
add_dependencies(${test} tutti-perf tutti-window-perf)
# tutti-window-perf with puts or gets that move nothing.
add_executable(tools-lossy-window-perf ${CMAKE_CURRENT_LIST_DIR}/lossy/window.cpp)
target_link_libraries(tools-lossy-window-perf PRIVATE tutti-window-perf-parts)
foreach(move put get)
  target_link_options(tools-lossy-window-perf PRIVATE
    -Wl,--wrap=_ZN5tutti6Window3${move}EiRKNS_5BlockERKNS_15TransferOptionsE)
endforeach()
tutti_strict(tools-lossy-window-perf)
target_compile_definitions(${test} PRIVATE TUTTI_LOSSY_WINDOW_PERF="$<TARGET_FILE:tools-lossy-window-perf>")
add_dependencies(${test} tools-lossy-window-perf)
# tutti-perf with a library whose results are wrong.
add_executable(tools-lossy-perf ${CMAKE_CURRENT_LIST_DIR}/lossy/perf.cpp ${PROJECT_SOURCE_DIR}/tools/perf/main.cpp)
target_link_libraries(tools-lossy-perf PRIVATE tutti-perf-parts)
foreach(call 12Communicator6submitERKNS_4CallE 5Group6submitERKNS_4CallE 5Group3runEv)
  target_link_options(tools-lossy-perf PRIVATE -Wl,--wrap=_ZN5tutti${call})
endforeach()
tutti_strict(tools-lossy-perf)
target_compile_definitions(${test} PRIVATE TUTTI_LOSSY_PERF="$<TARGET_FILE:tools-lossy-perf>")
add_dependencies(${test} tools-lossy-perf)
