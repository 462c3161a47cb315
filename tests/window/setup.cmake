# Ranks over RDMA, as the tests of transports have them.
if(TUTTI_HAVE_VERBS)
  target_sources(${test} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/transport/verbs_fake.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/transport/verbs_fake_devices.cpp)
endif()
