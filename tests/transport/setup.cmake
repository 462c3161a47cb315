# Tests of RDMA need its headers.
if(NOT TUTTI_HAVE_VERBS)
  get_target_property(sources ${test} SOURCES)
  list(FILTER sources EXCLUDE REGEX "/verbs_[^/]+$")
  set_target_properties(${test} PROPERTIES SOURCES "${sources}")
endif()
