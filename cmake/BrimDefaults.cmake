# Build type, output folders, rpath and ccache.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release) # of brim alone, where it is a part of another project
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  endif()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endif()

# The command finds its library beside itself, in the build tree and after install or a move.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
file(RELATIVE_PATH brim_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(brim_command_rpath "$ORIGIN/../lib" "$ORIGIN/${brim_bin_to_lib}")
list(REMOVE_DUPLICATES brim_command_rpath)

# Paths below the source folder are told to ccache as relative ones, so that another clone finds what this one compiled;
# the sloppiness is what ccache asks for with precompiled headers.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(BRIM_CCACHE ccache)
  mark_as_advanced(BRIM_CCACHE)
  if(BRIM_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/ccache.sh ${BRIM_CCACHE})
    foreach(setting IN ITEMS SLOPPINESS=pch_defines,time_macros BASEDIR=${PROJECT_SOURCE_DIR})
      string(REGEX REPLACE "=.*" "" name ${setting})
      if(NOT DEFINED ENV{CCACHE_${name}}) # the user's own goes first
        list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER CCACHE_${setting})
      endif()
    endforeach()
    list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()
