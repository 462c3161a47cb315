# The page whose example is proved.
target_compile_definitions(${test} PRIVATE TUTTI_SCHEDULES_PAGE="${PROJECT_SOURCE_DIR}/docs/schedules.md")
# The page whose tables are counted.
target_compile_definitions(${test} PRIVATE TUTTI_ALGORITHMS_PAGE="${PROJECT_SOURCE_DIR}/docs/algorithms.md")
