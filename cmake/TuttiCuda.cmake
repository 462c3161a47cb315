# GPU buffers: nvcc compiles one file to machine code for the architectures below and to PTX for later ones; everything
# else is C++. The runtime is linked statically, so that a program with CUDA in it starts where there is no driver.
set(TUTTI_CUDA AUTO CACHE STRING "GPU buffers: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE TUTTI_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TUTTI_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "Compute capabilities to compile for; the last one as PTX, too")
if(TUTTI_CUDA STREQUAL AUTO AND TUTTI_SANITIZE)
  message(STATUS "GPU buffers: left out, sanitizers see nothing on a GPU (their host parts are tested all the same)")
elseif(TUTTI_CUDA)
  find_package(CUDAToolkit 12.8 QUIET)  # cudaStreamGetDevice
  if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE OR NOT TARGET CUDA::cudart_static)
    if(NOT TUTTI_CUDA STREQUAL AUTO)
      message(FATAL_ERROR "TUTTI_CUDA is ${TUTTI_CUDA}, but there is no CUDA toolkit of 12.8 or later: put nvcc on the PATH")
    endif()
  else()
    set(TUTTI_HAVE_CUDA TRUE)
    message(STATUS "GPU buffers: CUDA ${CUDAToolkit_VERSION}")
  endif()
endif()

if(TUTTI_HAVE_CUDA)
  list(APPEND tutti_dependencies $<LINK_ONLY:CUDA::cudart_static>)
endif()

# Adds the kernels to `target`, and says so to the files that have to do with them.
function(tutti_add_kernels target)
  set_source_files_properties(src/gpu/api.cpp PROPERTIES COMPILE_DEFINITIONS TUTTI_HAVE_CUDA=1)
  file(GLOB runtime CONFIGURE_DEPENDS src/gpu/cuda_*.cpp)
  set_source_files_properties(${runtime} PROPERTIES INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}")
  set(codes)
  foreach(architecture ${TUTTI_CUDA_ARCHITECTURES})
    list(APPEND codes -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET TUTTI_CUDA_ARCHITECTURES -1 last)
  list(APPEND codes -gencode=arch=compute_${last},code=compute_${last})
  set(kernels ${CMAKE_CURRENT_SOURCE_DIR}/src/gpu/kernels.cu)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/gpu_kernels.o)
  # Two roundings for a multiplication and an addition, as on the processors.
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CUDAToolkit_NVCC_EXECUTABLE} -c ${kernels} -o ${object} -MD -MF ${object}.d
      -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr ${codes}
      -I${CMAKE_CURRENT_SOURCE_DIR}/src -I${CMAKE_CURRENT_SOURCE_DIR}/include
      -ccbin ${CMAKE_CXX_COMPILER} -Werror all-warnings -Xcompiler -fPIC,-Wall,-Wextra,-Werror
    DEPENDS ${kernels} DEPFILE ${object}.d COMMENT "Building GPU kernels" VERBATIM COMMAND_EXPAND_LISTS)
  target_sources(${target} PRIVATE ${object})
endfunction()
