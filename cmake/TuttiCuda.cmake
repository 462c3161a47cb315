# GPU buffers: nvcc compiles one file to machine code for the architectures below and to PTX for later ones; everything
# else is C++. The runtime is linked statically, so that a program with CUDA in it starts where there is no driver.
set(TUTTI_CUDA AUTO CACHE STRING "GPU buffers: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE TUTTI_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TUTTI_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "Compute capabilities to compile for; the last one as PTX, too")
string(TOUPPER "${TUTTI_CUDA}" tutti_cuda)
if(NOT tutti_cuda MATCHES "^(AUTO|ON|OFF|TRUE|FALSE|YES|NO|Y|N|1|0)$")  # whatever else there is, CMake takes for ON
  message(FATAL_ERROR "TUTTI_CUDA is \"${TUTTI_CUDA}\"; it is to be AUTO, ON or OFF")
endif()
if(tutti_cuda STREQUAL AUTO AND TUTTI_SANITIZE)
  message(STATUS "GPU buffers: left out, sanitizers see nothing on a GPU (their host parts are tested all the same)")
elseif(tutti_cuda)
  find_package(CUDAToolkit 12.8 QUIET)  # cudaStreamGetDevice
  if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE OR NOT TARGET CUDA::cudart_static)
    if(NOT tutti_cuda STREQUAL AUTO)
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
  # As many files as keep the processors of a small machine busy.
  set(kernel_names kernels kernels_bytes kernels_halves kernels_words kernels_doubles)
  set(kernels_directory ${CMAKE_CURRENT_BINARY_DIR}/gpu_kernels)
  file(MAKE_DIRECTORY ${kernels_directory})
  # Of a directory of its own: all other files would wait for what a command of this one makes, and nvcc takes minutes.
  add_subdirectory(src/gpu)
  list(TRANSFORM kernel_names REPLACE "(.+)" "${kernels_directory}/\\1.o" OUTPUT_VARIABLE objects)
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_sources(${target} PRIVATE ${objects})
  if(NOT CMAKE_GENERATOR MATCHES Ninja)  # which sees by the file's name who makes it
    add_dependencies(${target} tutti_kernels)
  endif()
endfunction()
