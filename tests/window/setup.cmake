# Ranks over RDMA, as the tests of transports have them.
if(VERBS_FOUND)
  target_sources(${test} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/transport/verbs_fake.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/transport/verbs_fake_devices.cpp)
endif()
