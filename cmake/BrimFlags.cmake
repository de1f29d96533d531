# Compiler flags. brim_flags: warnings and code generation, for everything built here.
# brim_private: brim_flags and the third-party libraries, for the library, the command and the tests.
add_library(brim_flags INTERFACE)
add_library(brim_private INTERFACE)
target_link_libraries(brim_private INTERFACE brim_flags brim_deps)

target_compile_options(
  brim_flags
  INTERFACE -Wall
            -Wextra
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wno-missing-field-initializers # option aggregates name only what differs
            # errno and FP traps are not used; without these two, selects and sqrt are not vectorised.
            -fno-math-errno
            -fno-trapping-math
            -fno-semantic-interposition)

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # -Wrestrict is wrong on std::string in GCC 12 (PR 105651). The other flow warnings depend on what
  # was inlined and are often wrong at -O3: shown, but not errors.
  target_compile_options(
    brim_flags
    INTERFACE -Wshadow=local
              -Wno-restrict
              -Wno-error=maybe-uninitialized
              -Wno-error=array-bounds
              -Wno-error=stringop-overflow
              -Wno-error=stringop-overread
              -Wno-error=free-nonheap-object
              # Less garbage collection: 100 MB more for a compiler, a tenth less time.
              "SHELL:--param ggc-min-heapsize=524288")
else()
  target_compile_options(brim_flags INTERFACE -Wshadow -Wno-unused-command-line-argument -Wno-pass-failed)
endif()
if(BRIM_WERROR)
  target_compile_options(brim_flags INTERFACE -Werror)
endif()

# Kernels are compiled once per instruction set: the baseline, AVX2 and AVX-512 (NEON, SVE on Arm), and SSE4 with BRIM_SSE4.
# Sanitizers get one set with vectors, to see the tails.
if((BRIM_SANITIZE OR BRIM_FUZZ) AND CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  target_compile_options(brim_flags INTERFACE -march=x86-64-v3 -maes -mpclmul)
  target_compile_definitions(brim_flags INTERFACE HWY_COMPILE_ONLY_STATIC)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64) # vectors of NEON: those of SVE have no size, and tiles are arrays of them
  target_compile_definitions(brim_flags INTERFACE "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
elseif(BRIM_SSE4)
  target_compile_definitions(brim_flags INTERFACE HWY_DISABLED_TARGETS=HWY_SSSE3)
else()
  target_compile_definitions(brim_flags INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
endif()

string(REPLACE "-O2" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")

if(BRIM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "BRIM_FUZZ needs clang: configure with the preset `fuzz` or -DCMAKE_CXX_COMPILER=clang++")
  endif()
  if(NOT BRIM_SANITIZE)
    set(BRIM_SANITIZE "address,undefined")
  endif()
endif()

if(BRIM_SANITIZE)
  target_compile_options(brim_flags INTERFACE -fsanitize=${BRIM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(brim_flags INTERFACE -fsanitize=${BRIM_SANITIZE})
  if(BRIM_SANITIZE MATCHES address)
    target_compile_definitions(brim_flags INTERFACE _GLIBCXX_ASSERTIONS)
    if(BRIM_SANITIZE MATCHES undefined)
      # AddressSanitizer sees what these would, when it is read or written; without them kernels compile in two thirds of the time.
      target_compile_options(brim_flags INTERFACE -fno-sanitize=null,object-size,pointer-overflow,vptr)
    endif()
  endif()
else()
  # Calls inside libbrim go straight to their target instead of through the PLT.
  target_link_options(brim_flags INTERFACE LINKER:-Bsymbolic-functions LINKER:--as-needed LINKER:--no-undefined)
endif()

# brim_precompile(TARGET [header...] | TARGET REUSE_FROM other): what most of a target's files include, parsed once, which is
# most of the time of a file that only has code (an op, a module). A change of one of these headers rebuilds the target;
# nearly all of its files would be rebuilt anyway. It hides a missing #include: CI builds without it, too.
set(brim_standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <map>
    <memory> <mutex> <optional> <span> <string> <string_view> <unordered_map> <utility> <vector> <fmt/core.h>)
function(brim_precompile target)
  if(NOT BRIM_PCH)
    return()
  endif()
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${brim_standard_headers} ${ARGN})
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang) # without its time, ccache knows it again
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# brim_group(TARGET): compiles the files of a folder (with the folders in it) together, up to ten at a time: most of the time of
# a short file goes into what it includes. Names in anonymous namespaces are therefore unique within a folder of src/ or tests/.
# What includes Highway stays alone: its macros say which instruction sets a file is for. A missing #include is hidden, as by BRIM_PCH.
function(brim_group target)
  if(NOT BRIM_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(groups "")
  foreach(source IN LISTS sources)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
    file(STRINGS ${source} vectors REGEX "#include <hwy/" LIMIT_COUNT 1)
    if(vectors OR path MATCHES "^src/backend/cpu/kernels/" OR NOT path MATCHES "^(src|tests|bench)/([a-z]+)/")
      continue()
    endif()
    set(group ${CMAKE_MATCH_2})
    list(APPEND groups ${group})
    list(APPEND files_of_${group} ${source})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    list(LENGTH files_of_${group} count)
    math(EXPR batches "(${count} + 9) / 10")
    math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
    set(at 0)
    foreach(source IN LISTS files_of_${group})
      math(EXPR batch "${at} / ${size}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${batch})
      math(EXPR at "${at} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # to GCC each of the files is a header
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
