# Exercises and sequences of operations are those of the communicator's own tests.
target_sources(${test} PRIVATE communicator/exercise.cpp communicator/reference.cpp communicator/sequence.cpp)
