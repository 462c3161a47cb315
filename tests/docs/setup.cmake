# The pages are read from the sources.
target_compile_definitions(${test} PRIVATE TUTTI_SOURCE="${PROJECT_SOURCE_DIR}")
