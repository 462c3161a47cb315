# Device code runs here on host threads: rounding as the library's own kernels do it.
target_compile_options(${test} PRIVATE -ffp-contract=off)
