# The CUDA backend: libbrim_cuda.so, opened at run time. Built where it is asked for (BRIM_CUDA=ON) or, by default, where the
# machine has a GPU and the CUDA toolkit; for that GPU alone, or without one for the architectures of a package. Its sources are
# also compiled for the CPU over a small emulation of CUDA (src/backend/cuda/emulation), as libbrim_cuda_emulated.so, which tests
# open in its place.
set(BRIM_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where a GPU and the toolkit are), ON or OFF")
# The GPUs that the driver can use, by compute capability; nvidia-smi is part of the driver, under WSL and in containers, too.
set(brim_gpus "")
find_program(BRIM_NVIDIA_SMI nvidia-smi PATHS /usr/lib/wsl/lib)
mark_as_advanced(BRIM_NVIDIA_SMI)
if(BRIM_NVIDIA_SMI)
  execute_process(COMMAND ${BRIM_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader TIMEOUT 30 OUTPUT_VARIABLE brim_smi_says
                  RESULT_VARIABLE brim_smi_failed ERROR_QUIET)
  if(NOT brim_smi_failed)
    string(REGEX MATCHALL "[^\n\r]+" brim_capabilities "${brim_smi_says}")
    foreach(capability IN LISTS brim_capabilities)
      if(NOT capability MATCHES "^ *([1-9][0-9]?)\\.([0-9]) *$")
        continue()
      endif()
      set(capability ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
      if(capability GREATER_EQUAL 75) # the least that CUDA 13 compiles for
        list(APPEND brim_gpus ${capability})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES brim_gpus)
  endif()
endif()
set(BRIM_CUDA_ARCHITECTURES "" CACHE STRING "GPU architectures to compile for; empty: those of this machine's GPUs, without one those of a package")
if(BRIM_CUDA_ARCHITECTURES)
  set(brim_cuda_architectures ${BRIM_CUDA_ARCHITECTURES})
elseif(DEFINED ENV{BRIM_CUDA_ARCHITECTURES})
  set(brim_cuda_architectures $ENV{BRIM_CUDA_ARCHITECTURES})
elseif(brim_gpus)
  set(brim_cuda_architectures ${brim_gpus})
else()
  set(brim_cuda_architectures 75 80 86 87 89 90 100 120)
endif()
# Kernels are .cu files; what runs on the host alone is .cpp, which spares it nvcc.
file(GLOB_RECURSE brim_cuda_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cu)
file(GLOB brim_cuda_host CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/runtime/*.cpp ${PROJECT_SOURCE_DIR}/src/backend/cuda/graph/*.cpp
     ${PROJECT_SOURCE_DIR}/src/backend/cuda/compile/*.cpp)
# The headers that NVRTC compiles formulas with at run time, as text.
set(brim_device_headers core/dtype.h core/same_bits.h formula/formula.h formula/math.h formula/dual.h extend/formula.h extend/derivative.h
                        extend/cuda_number.h extend/cuda_walk.h extend/cuda_formula_kernel.h)
list(TRANSFORM brim_device_headers PREPEND ${PROJECT_SOURCE_DIR}/include/brim/)
set(brim_embedded_headers ${PROJECT_BINARY_DIR}/generated/device_headers.cpp)
add_custom_command(
  OUTPUT ${brim_embedded_headers}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${brim_embedded_headers} -DINCLUDE=${PROJECT_SOURCE_DIR}/include
          -DSTANDARD=${PROJECT_SOURCE_DIR}/src/backend/cuda/compile/standard.cuh "-DHEADERS=${brim_device_headers}" -P
          ${PROJECT_SOURCE_DIR}/cmake/EmbedHeaders.cmake
  DEPENDS ${brim_device_headers} ${PROJECT_SOURCE_DIR}/src/backend/cuda/compile/standard.cuh ${PROJECT_SOURCE_DIR}/cmake/EmbedHeaders.cmake
  VERBATIM)
list(APPEND brim_cuda_host ${brim_embedded_headers})
# What calls NVIDIA's libraries. In the emulation it meets fakes of them (below); without their headers,
# emulation/no_libraries.cpp and libraries/no_cudnn.cpp stand in for it.
file(GLOB brim_cuda_libraries CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/libraries/*.cpp)
# What observes devices opens NVIDIA's libraries too, but works over the emulation, where tests put fakes in their place.
file(GLOB brim_cuda_observe CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/observe/*.cpp)
list(APPEND brim_cuda_host ${brim_cuda_observe})
find_program(BRIM_NVCC NAMES $ENV{CUDACXX} nvcc PATHS /usr/local/cuda/bin)
mark_as_advanced(BRIM_NVCC)
get_filename_component(brim_toolkit "${BRIM_NVCC}" DIRECTORY)
# Not every toolkit has these headers: what needs one sees BRIM_HAVE_<ID> where it was found.
set(brim_cuda_places PATHS ${brim_toolkit}/../include ${brim_toolkit}/../extras/CUPTI/include /usr/local/cuda/include
                     /usr/local/cuda/extras/CUPTI/include ENV CPLUS_INCLUDE_PATH)
find_path(BRIM_CUPTI_INCLUDE cupti.h ${brim_cuda_places})
find_path(BRIM_NVTX_INCLUDE nvtx3/nvToolsExt.h ${brim_cuda_places})
find_path(BRIM_CUDNN_INCLUDE cudnn.h ${brim_cuda_places})
set(brim_cuda_includes "")
function(brim_cuda_header id)
  mark_as_advanced(BRIM_${id}_INCLUDE)
  if(BRIM_${id}_INCLUDE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS BRIM_HAVE_${id}=1)
    set(brim_cuda_includes ${brim_cuda_includes} ${BRIM_${id}_INCLUDE} PARENT_SCOPE)
  endif()
endfunction()
file(GLOB brim_cudnn CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/libraries/cudnn*.cpp)
set(brim_cuda_build ${PROJECT_SOURCE_DIR}/src/backend/cuda/runtime/build.cpp) # which says what was found
brim_cuda_header(CUPTI ${PROJECT_SOURCE_DIR}/src/backend/cuda/observe/cupti.cpp ${brim_cuda_build})
brim_cuda_header(NVTX ${PROJECT_SOURCE_DIR}/src/backend/cuda/observe/nvtx.cpp)
brim_cuda_header(CUDNN ${brim_cudnn} ${brim_cuda_build})
set(brim_no_cudnn ${PROJECT_SOURCE_DIR}/src/backend/cuda/libraries/no_cudnn.cpp)
if(BRIM_CUDNN_INCLUDE)
  list(REMOVE_ITEM brim_cuda_libraries ${brim_no_cudnn})
endif()

set(brim_nvcc_least 13.0) # the first that knows the architectures above
set(brim_nvcc "")
string(TOUPPER "${BRIM_CUDA}" brim_asked)
if(brim_asked MATCHES "^(ON|TRUE|YES|Y|1)$")
  set(brim_asked ON)
elseif(brim_asked MATCHES "^(OFF|FALSE|NO|N|0|)$")
  set(brim_asked OFF)
elseif(NOT brim_asked STREQUAL "AUTO")
  message(FATAL_ERROR "BRIM_CUDA is '${BRIM_CUDA}'; use AUTO, ON or OFF")
endif()
if(brim_asked STREQUAL "AUTO" AND NOT brim_gpus)
  set(brim_use_cuda OFF)
else()
  set(brim_use_cuda ${brim_asked})
endif()
set(brim_no_nvcc "nvcc was not found; install the CUDA ${brim_nvcc_least} toolkit or add its bin folder to PATH")
if(BRIM_NVCC AND NOT brim_use_cuda STREQUAL "OFF")
  execute_process(COMMAND ${BRIM_NVCC} --version OUTPUT_VARIABLE brim_nvcc_says ERROR_QUIET)
  if(brim_nvcc_says MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL brim_nvcc_least)
    set(brim_nvcc ${BRIM_NVCC})
  else()
    set(brim_no_nvcc "${BRIM_NVCC} is of CUDA ${CMAKE_MATCH_1}, ${brim_nvcc_least} is needed")
  endif()
endif()
# A GPU that nvcc does not know yet runs what it compiles for the newest before it.
if(brim_nvcc AND brim_gpus AND "${brim_cuda_architectures}" STREQUAL "${brim_gpus}")
  execute_process(COMMAND ${brim_nvcc} --list-gpu-arch OUTPUT_VARIABLE brim_nvcc_says ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" brim_known "${brim_nvcc_says}")
  set(brim_cuda_architectures "")
  foreach(capability IN LISTS brim_gpus)
    set(nearest 75)
    foreach(known IN LISTS brim_known)
      if(known LESS_EQUAL capability AND known GREATER nearest)
        set(nearest ${known})
      endif()
    endforeach()
    list(APPEND brim_cuda_architectures ${nearest})
  endforeach()
  list(REMOVE_DUPLICATES brim_cuda_architectures)
endif()
if(brim_asked STREQUAL "ON" AND NOT brim_nvcc)
  message(FATAL_ERROR "BRIM_CUDA is ON, but ${brim_no_nvcc}")
elseif(brim_asked STREQUAL "AUTO" AND NOT brim_gpus)
  message(STATUS "brim: no CUDA backend: no GPU of compute capability 7.5 or more here; `make cuda` or -DBRIM_CUDA=ON builds it all the same")
elseif(brim_use_cuda STREQUAL "AUTO" AND NOT brim_nvcc)
  message(STATUS "brim: no CUDA backend: ${brim_no_nvcc}")
endif()
# Sanitizers do not see device code; the emulation is what they check.
if(brim_nvcc AND NOT BRIM_SANITIZE AND NOT BRIM_FUZZ)
  set(CMAKE_CUDA_COMPILER ${brim_nvcc})
  set(CMAKE_CUDA_ARCHITECTURES ${brim_cuda_architectures})
  enable_language(CUDA)
  message(STATUS "brim: CUDA backend by ${brim_nvcc} (${CMAKE_CUDA_COMPILER_VERSION}) for compute capabilities ${brim_cuda_architectures}")
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know yet that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  if(NOT BRIM_CUDNN_INCLUDE)
    message(STATUS "brim: no cudnn.h (NVIDIA's cudnn9-cuda-13, pip's nvidia-cudnn-cu13): convolutions on GPUs run without cuDNN")
  endif()
  if(NOT BRIM_CUPTI_INCLUDE)
    message(STATUS "brim: no cupti.h (part of the toolkit): traces of GPUs show ops instead of kernels")
  endif()
  add_library(brim_cuda MODULE ${brim_cuda_kernels} ${brim_cuda_host} ${brim_cuda_libraries})
  target_include_directories(brim_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)
  # 186: integers without a sign compared with 0, in formulas for all types. 1835: initial-exec TLS.
  # Compressed for size, six architectures take 41 MB instead of 324; every driver of CUDA 13 unpacks that.
  target_compile_options(brim_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;-Xcompiler=-Wall;-diag-suppress=186,1835;--compress-mode=size>)
  target_include_directories(brim_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${brim_cuda_includes})
  target_link_libraries(brim_cuda PRIVATE brim fmt::fmt)
  set_target_properties(brim_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
                        INSTALL_RPATH "\$ORIGIN")
  install(TARGETS brim_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# The CUDA kernels of examples/own_op, for GPUs and for the emulation.
set(own_op_kernels ${PROJECT_SOURCE_DIR}/examples/own_op/softsign.cu ${PROJECT_SOURCE_DIR}/examples/own_op/l1_distances.cu)
if(TARGET brim_cuda AND (BRIM_EXAMPLES OR BRIM_TESTS))
  brim_add_plugin(own_op_cuda SOURCES ${own_op_kernels})
endif()

# libraries/*.cpp as the emulation has it, compiled with CUDA's own headers, and fakes of the libraries it calls
# (tests/fakes): build/fakes, for BRIM_CUDA_LIBRARIES.
function(brim_add_fakes)
  set(sources ${brim_cuda_libraries})
  list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/backend/cuda/libraries/open.cpp) # emulation/libraries.cpp
  add_library(brim_cuda_libraries OBJECT ${sources})
  set_target_properties(brim_cuda_libraries PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(brim_cuda_libraries PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                                         ${PROJECT_BINARY_DIR}/generated)
  target_include_directories(brim_cuda_libraries SYSTEM PRIVATE ${BRIM_CUBLASLT_INCLUDE} ${BRIM_CUDNN_INCLUDE})
  target_link_libraries(brim_cuda_libraries PRIVATE brim_private)
  add_custom_target(brim_fake_libraries)
  foreach(fake IN ITEMS cublasLt.so.13 cudnn.so.9)
    string(REGEX REPLACE "\\..*" "" name ${fake})
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fakes/${name}*.cpp)
    add_library(brim_fake_${name} MODULE ${sources} ${PROJECT_SOURCE_DIR}/tests/fakes/fake.cpp)
    target_include_directories(brim_fake_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                                         ${PROJECT_SOURCE_DIR}/tests ${PROJECT_BINARY_DIR}/generated)
    target_include_directories(brim_fake_${name} SYSTEM PRIVATE ${BRIM_CUBLASLT_INCLUDE} ${BRIM_CUDNN_INCLUDE})
    target_link_libraries(brim_fake_${name} PRIVATE brim brim_private)
    # Each calls its own helpers, not those of a fake that was opened before it; sanitizers' builds have no flag for that.
    target_link_options(brim_fake_${name} PRIVATE LINKER:-Bsymbolic)
    set_target_properties(brim_fake_${name} PROPERTIES OUTPUT_NAME ${fake} SUFFIX "" PREFIX lib
                                                       LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fakes)
    add_dependencies(brim_fake_libraries brim_fake_${name})
  endforeach()
endfunction()

# A source file has one language in a folder, so each .cu is included by a .cpp of its own.
function(brim_add_emulated_cuda)
  find_package(Boost QUIET COMPONENTS context)
  if(NOT TARGET Boost::context)
    message(STATUS "brim: no Boost.Context (libboost-context-dev), so the CUDA kernels are not tested on the CPU")
    return()
  endif()
  set(wrappers "")
  foreach(source IN LISTS brim_cuda_kernels)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/src ${source})
    set(wrapper ${PROJECT_BINARY_DIR}/generated/emulated/${name}.cpp)
    file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${name}\"\n")
    list(APPEND wrappers ${wrapper})
  endforeach()
  file(GLOB emulation CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/emulation/*.cpp)
  set(no_libraries ${PROJECT_SOURCE_DIR}/src/backend/cuda/emulation/no_libraries.cpp)
  # Its barriers are most of the time of a kernel in tests.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cuda/emulation/emulation.cpp PROPERTIES COMPILE_OPTIONS -O2
                              SKIP_PRECOMPILE_HEADERS ON)
  # Unrolled as for a GPU, a kernel under sanitizers would take clang many minutes.
  set(options -O1 -Wno-unknown-pragmas $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
              "$<$<CXX_COMPILER_ID:Clang>:SHELL:-mllvm -pragma-unroll-threshold=1>")
  find_path(BRIM_CUBLASLT_INCLUDE cublasLt.h ${brim_cuda_places})
  mark_as_advanced(BRIM_CUBLASLT_INCLUDE)
  if(BRIM_CUBLASLT_INCLUDE AND BRIM_CUDNN_INCLUDE)
    list(REMOVE_ITEM emulation ${no_libraries})
    brim_add_fakes()
  else()
    list(APPEND emulation ${brim_no_cudnn})
  endif()
  if(brim_nvcc AND NOT TARGET brim_fake_libraries)
    message(STATUS "brim: no cublasLt.h or no cudnn.h, so what calls NVIDIA's libraries is not tested on the CPU")
  endif()
  add_library(brim_cuda_emulated MODULE ${wrappers} ${brim_cuda_host} ${emulation})
  target_include_directories(brim_cuda_emulated BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/src/backend/cuda/emulation ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(brim_cuda_emulated SYSTEM PRIVATE ${brim_cuda_includes})
  target_compile_options(brim_cuda_emulated PRIVATE ${options})
  target_compile_definitions(brim_cuda_emulated PRIVATE BRIM_STANDARD_MATH) # as nvcc's; brim's own is for the CPU's loops
  brim_precompile(brim_cuda_emulated ${PROJECT_SOURCE_DIR}/src/backend/kernel.h)
  target_link_libraries(brim_cuda_emulated PRIVATE brim brim_private Boost::context)
  set_target_properties(brim_cuda_emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/emulated)
  if(TARGET brim_fake_libraries)
    target_sources(brim_cuda_emulated PRIVATE $<TARGET_OBJECTS:brim_cuda_libraries>)
    add_dependencies(brim_cuda_emulated brim_fake_libraries)
  endif()
endfunction()

# brim_add_emulated_plugin(NAME SOURCES file...): brim_add_plugin, with its .cu files compiled over the emulation.
function(brim_add_emulated_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 plugin "" "" SOURCES)
  set(sources "")
  foreach(source IN LISTS plugin_SOURCES)
    if(source MATCHES "\\.cu$")
      get_filename_component(file ${source} NAME)
      set(wrapper ${PROJECT_BINARY_DIR}/generated/emulated/${name}/${file}.cpp)
      file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${source}\"\n")
      set(source ${wrapper})
    endif()
    list(APPEND sources ${source})
  endforeach()
  brim_add_plugin(${name} SOURCES ${sources})
  target_include_directories(${name} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/src/backend/cuda/emulation)
  target_compile_definitions(${name} PRIVATE BRIM_STANDARD_MATH)
endfunction()

# ThreadSanitizer does not understand fibers, and nothing here has several threads.
if(BRIM_TESTS AND NOT BRIM_SANITIZE MATCHES thread)
  brim_add_emulated_cuda()
endif()
