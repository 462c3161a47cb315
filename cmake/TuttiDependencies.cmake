# What the library needs, and what it uses when it is there. docs/dependencies.md says what each is for.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
# Names of its own: who uses tutti may give others to the same packages, or to more at once, and have them already.
pkg_check_modules(TUTTI_HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(TUTTI_SODIUM REQUIRED IMPORTED_TARGET libsodium)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)  # headers only: nothing for those who link tutti
set(tutti_dependencies Threads::Threads PkgConfig::TUTTI_HWY PkgConfig::TUTTI_SODIUM fmt::fmt
  $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
set(tutti_pkgconfig_requires "libhwy libsodium fmt")

# tutti_use(PREFIX PACKAGE [VERSION]): a package that pkg-config knows, where it is: TUTTI_HAVE_<PREFIX>, here and in the sources.
# TUTTI_<PREFIX>_FOUND is no answer: the build folder remembers it, also when the option was turned off since.
macro(tutti_use prefix package)
  pkg_check_modules(TUTTI_${prefix} IMPORTED_TARGET ${package}${ARGN})
  if(TUTTI_${prefix}_FOUND)
    set(TUTTI_HAVE_${prefix} TRUE)
    list(APPEND tutti_dependencies PkgConfig::TUTTI_${prefix})
    string(APPEND tutti_pkgconfig_requires " ${package}")
    add_compile_definitions(TUTTI_HAVE_${prefix}=1)
  endif()
endmacro()

if(TUTTI_WITH_PMIX)
  tutti_use(PMIX pmix)
endif()

option(TUTTI_WITH_VERBS "Find rdma-core, for RDMA between hosts" ON)
if(TUTTI_WITH_VERBS)
  tutti_use(VERBS libibverbs)
endif()
if(TUTTI_HAVE_VERBS)
  tutti_use(RDMACM librdmacm)  # without it iWARP devices are not used
endif()

option(TUTTI_WITH_EXPAT "Find expat, for topology files in XML" ON)
if(TUTTI_WITH_EXPAT)
  tutti_use(EXPAT expat)
endif()

option(TUTTI_WITH_HWLOC "Find hwloc, for the topology of this machine; needs expat" ON)
if(TUTTI_WITH_HWLOC AND TUTTI_HAVE_EXPAT)
  tutti_use(HWLOC hwloc >=2.4)
endif()

if(TUTTI_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C++ bindings that MPI 3 removed
  find_package(MPI COMPONENTS CXX)
endif()
