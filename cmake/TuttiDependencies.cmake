# What the library needs, and what it uses when it is there. docs/dependencies.md says what each is for.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
find_package(fmt REQUIRED)
set(tutti_dependencies Threads::Threads PkgConfig::HWY PkgConfig::SODIUM fmt::fmt)
set(tutti_pkgconfig_requires "libhwy libsodium fmt")

if(TUTTI_WITH_PMIX)
  pkg_check_modules(PMIX IMPORTED_TARGET pmix)
endif()
if(PMIX_FOUND)
  list(APPEND tutti_dependencies PkgConfig::PMIX)
  string(APPEND tutti_pkgconfig_requires " pmix")
  add_compile_definitions(TUTTI_HAVE_PMIX=1)
endif()

if(TUTTI_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C++ bindings that MPI 3 removed
  find_package(MPI COMPONENTS CXX)
endif()
