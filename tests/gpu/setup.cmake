# Device code runs here on host threads: rounding as the library's own kernels do it.
target_compile_options(${test} PRIVATE -ffp-contract=off)
# Ranks over RDMA, as the tests of transports have them.
if(TUTTI_HAVE_VERBS)
  target_sources(${test} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/transport/verbs_fake.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/transport/verbs_fake_devices.cpp)
else()
  get_target_property(sources ${test} SOURCES)
  list(FILTER sources EXCLUDE REGEX "/gpudirect_[^/]+$")
  set_target_properties(${test} PROPERTIES SOURCES "${sources}")
endif()
