# Compiler settings that every target of the project shares.
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  # The files of a folder are compiled as one, in less than half of the time; scripts/check-alone shows that each compiles alone.
  if(NOT DEFINED CMAKE_UNITY_BUILD AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    set(CMAKE_UNITY_BUILD ON)
    set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)
  endif()
  # Compilers other than those that are tested may warn of something: -DCMAKE_COMPILE_WARNING_AS_ERROR=OFF lets them.
  if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
    set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
  endif()
  find_program(TUTTI_CCACHE ccache)
  if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${TUTTI_CCACHE})
  endif()
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Errors are exceptions, told apart by their types, also where tutti is a part of a project that does without either.
add_compile_options(-frtti -fexceptions)

if(TUTTI_SANITIZE)
  add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TUTTI_SANITIZE})
  if(TUTTI_SANITIZE MATCHES "address,undefined")  # slow to compile; all but the last are AddressSanitizer's, too
    add_compile_options(-fno-sanitize=null,object-size,pointer-overflow,vptr)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    foreach(sanitizer ADDRESS THREAD)  # GCC defines these by itself
      string(TOLOWER ${sanitizer} name)
      if(TUTTI_SANITIZE MATCHES ${name})
        add_compile_definitions(__SANITIZE_${sanitizer}__=1)
      endif()
    endforeach()
    if(TUTTI_SANITIZE MATCHES undefined)  # functions of libraries that are opened at run time have types of ours
      add_compile_options(-fno-sanitize=function)
    endif()
  endif()
  # Sanitizers do not see an index past the end of a vector that has more room.
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

# Of a target with several folders: each of them is compiled as one. So names in anonymous namespaces are unique within a folder.
function(tutti_unite target)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    if(NOT folder MATCHES "/kernels$")  # Highway includes these files several times over, by their names
      string(MAKE_C_IDENTIFIER "${folder}" group)
      set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${group})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

function(tutti_strict target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
  # A library's new release may deprecate what the code calls, even in an update of the same Debian: that breaks nothing yet.
  target_compile_options(${target} PRIVATE -Wno-error=deprecated-declarations)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC 12 invents overlaps and bounds in std::string operator+ and std::vector operator== (GCC bug 105651 and kin).
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overread)
    # And, with sanitizers, uninitialised variables in <regex> (GCC bug 105562).
    if(TUTTI_SANITIZE)
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
  endif()
  if(CMAKE_UNITY_BUILD)  # several files compiled as one, for time: what they say of each other means nothing
    target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()
