# libbrim_rt, the runtime of engines (src/rt, include/brim_rt.h): a shared and a static library that need the C library
# alone. libbrim holds the same code, for `brim export` and `brim verify`.
file(GLOB_RECURSE brim_rt_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/rt/*.cpp)
add_library(brim_rt_objects OBJECT ${brim_rt_sources})
set(brim_rt_core src/core/hash.cpp src/core/cpu_quota.cpp) # libbrim has them of its own
add_library(brim_rt SHARED $<TARGET_OBJECTS:brim_rt_objects> ${brim_rt_core})
add_library(brim_rt_static STATIC $<TARGET_OBJECTS:brim_rt_objects> ${brim_rt_core})
add_library(brim::rt ALIAS brim_rt)
foreach(target IN ITEMS brim_rt_objects brim_rt brim_rt_static)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                             PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:brim_flags> Threads::Threads)
  # No exception ends in C, and nobody asks for types: what is not used is left out.
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti -ffunction-sections -fdata-sections -fvisibility=hidden
                                           -fvisibility-inlines-hidden $<$<CONFIG:Release>:-O2>)
endforeach()
# Tiles of sums stay in registers only where all their loops are unrolled; loops over formulas are to be vectorised.
set_source_files_properties(src/rt/kernels/convolution.cpp src/rt/kernels/depthwise.cpp src/rt/kernels/winograd.cpp
                            src/rt/kernels/elementwise.cpp src/rt/kernels/int8_convolution.cpp src/rt/kernels/int8_winograd.cpp
                            PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
set_target_properties(brim_rt_objects brim_rt_static PROPERTIES POSITION_INDEPENDENT_CODE ON)
if(BRIM_FUZZ) # engine_fuzz finds its way by what it has covered of this
  target_compile_options(brim_rt_objects PRIVATE -fsanitize=fuzzer-no-link)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64) # SSE4, too, whatever libbrim has
  target_compile_options(brim_rt_objects PRIVATE -UHWY_DISABLED_TARGETS -DHWY_DISABLED_TARGETS=HWY_SSSE3)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64) # what Highway says of its NEON functions, for those that it does not know of
  target_compile_options(brim_rt_objects PRIVATE -march=armv8-a+crypto)
endif()
target_link_options(brim_rt PRIVATE LINKER:--gc-sections LINKER:--as-needed -static-libgcc)
set_target_properties(brim_rt_static PROPERTIES OUTPUT_NAME brim_rt EXPORT_NAME rt_static ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
add_library(brim::rt_static ALIAS brim_rt_static)
set_target_properties(brim_rt PROPERTIES EXPORT_NAME rt VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                         BUILD_WITH_INSTALL_RPATH ON)
