# Exercises and sequences of operations are those of the communicator's own tests, emulated GPUs those of theirs.
target_sources(${test} PRIVATE communicator/exercise.cpp communicator/reference.cpp communicator/sequence.cpp
  gpu/emulated_api.cpp gpu/emulated_api_memory.cpp)
target_compile_options(${test} PRIVATE -ffp-contract=off)
