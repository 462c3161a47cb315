# `cmake --install`: library, headers, and what find_package and pkg-config read.
include(CMakePackageConfigHelpers)
set(tutti_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

set_target_properties(tutti PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
install(TARGETS tutti EXPORT tuttiTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${tutti_package_dir})

string(COMPARE EQUAL ${tutti_type} STATIC_LIBRARY tutti_is_static)
# In a folder where find_package does not look: a build folder has no tuttiTargets.cmake.
set(tutti_package ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tuttiConfig.cmake.in ${tutti_package}/tuttiConfig.cmake
  INSTALL_DESTINATION ${tutti_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${tutti_package}/tuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${tutti_package}/tuttiConfig.cmake ${tutti_package}/tuttiConfigVersion.cmake
  DESTINATION ${tutti_package_dir})

# A shared library brings along what it was built with: even Requires.private would ask for those packages' files, which only
# `-dev` packages have.
if(tutti_is_static)
  set(tutti_pc_requires "Requires: ${tutti_pkgconfig_requires}")
  set(tutti_pc_libs "-pthread -lstdc++")
  if(TUTTI_HAVE_CUDA)
    string(APPEND tutti_pc_libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
  endif()
endif()
# Paths in tutti.pc are relative to the file, so that an installed tree can be moved; only where the library's folder is absolute
# the file says nothing of where the prefix is. Blanks are escaped there, as pkg-config does in ${pcfiledir}.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  string(REPLACE " " "\\ " tutti_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH tutti_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(PREPEND tutti_pc_prefix "\${pcfiledir}/")
endif()
foreach(folder LIBDIR INCLUDEDIR)
  string(REPLACE " " "\\ " tutti_pc_${folder} "${CMAKE_INSTALL_${folder}}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    string(PREPEND tutti_pc_${folder} "\${prefix}/")
  endif()
endforeach()
# The library's name may have a postfix, which configurations differ by.
set(tutti_pc_library $<TARGET_FILE_BASE_NAME:tutti>)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc.in @ONLY)
set(tutti_pc ${PROJECT_BINARY_DIR}/${tutti_pc_library}.pc)
file(GENERATE OUTPUT ${tutti_pc} INPUT ${PROJECT_BINARY_DIR}/tutti.pc.in)
install(FILES ${tutti_pc} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig RENAME tutti.pc)
