# The drop-in for NCCL: libnccl.so.2, in a directory of its own, so that only those who point at it get it. Its objects
# are there for tests, too, which put an emulated device beneath them.
file(GLOB tutti_nccl_sources CONFIGURE_DEPENDS src/nccl/*.cpp)
set(tutti_nccl_exports ${PROJECT_SOURCE_DIR}/src/nccl/exports.map)
add_library(tutti-nccl-objects OBJECT ${tutti_nccl_sources})
tutti_unite(tutti-nccl-objects)
target_include_directories(tutti-nccl-objects PRIVATE src)
target_link_libraries(tutti-nccl-objects PRIVATE tutti fmt::fmt)
target_compile_options(tutti-nccl-objects PRIVATE -ffp-contract=off -fno-fast-math)
set_target_properties(tutti-nccl-objects PROPERTIES CXX_VISIBILITY_PRESET default)  # also in a project that hides its own
tutti_strict(tutti-nccl-objects)

add_library(tutti-nccl SHARED $<TARGET_OBJECTS:tutti-nccl-objects>)
target_link_libraries(tutti-nccl PRIVATE tutti fmt::fmt)  # as its objects do
# It stays where it was loaded (dlclose), since threads of its own may be under way.
target_link_options(tutti-nccl PRIVATE -Wl,--version-script=${tutti_nccl_exports} -Wl,-z,nodelete)
set_target_properties(tutti-nccl PROPERTIES OUTPUT_NAME nccl VERSION 2.28.9 SOVERSION 2 INSTALL_RPATH "$ORIGIN/../.."
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/nccl LINK_DEPENDS ${tutti_nccl_exports})
# Programs look for that name, whatever postfix others of the configuration have.
foreach(configuration ${CMAKE_CONFIGURATION_TYPES} ${CMAKE_BUILD_TYPE})
  string(TOUPPER ${configuration} configuration)
  set_target_properties(tutti-nccl PROPERTIES ${configuration}_POSTFIX "")
endforeach()
install(TARGETS tutti-nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tutti/nccl OPTIONAL)  # where it was built
