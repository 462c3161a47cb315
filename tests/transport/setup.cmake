# Tests of RDMA need its headers.
if(NOT VERBS_FOUND)
  get_target_property(sources ${test} SOURCES)
  list(FILTER sources EXCLUDE REGEX "/verbs_[^/]+$")
  set_target_properties(${test} PROPERTIES SOURCES "${sources}")
endif()
