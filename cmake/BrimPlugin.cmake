# brim::formula_flags: what the loops of formulas are vectorised with, for programs and libraries that have formulas.
if(NOT TARGET brim::formula_flags)
  add_library(brim::formula_flags INTERFACE IMPORTED GLOBAL)
  # Without the first two, loops over selects and square roots are not vectorised.
  target_compile_options(
    brim::formula_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno;-fno-trapping-math>"
                                  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-O3>")
endif()

# brim_add_plugin(NAME SOURCES file...): a shared library whose static objects register kernels, for brim::load_plugin(path). It
# carries the interface that it is built for. .cu files are compiled where the project has enabled CUDA, and left out elsewhere.
function(brim_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 plugin "" "" SOURCES)
  if(plugin_UNPARSED_ARGUMENTS OR NOT plugin_SOURCES)
    message(FATAL_ERROR "brim_add_plugin(${name} SOURCES file...): got '${ARGN}'")
  endif()
  set(kernels ${plugin_SOURCES})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  if(kernels AND NOT CMAKE_CUDA_COMPILER)
    list(REMOVE_ITEM plugin_SOURCES ${kernels})
    message(STATUS "brim: plugin ${name} is built without ${kernels}: enable_language(CUDA) where nvcc is")
  endif()
  set(marker ${CMAKE_CURRENT_BINARY_DIR}/${name}_plugin.cpp)
  file(CONFIGURE OUTPUT ${marker} CONTENT "#include <brim/extend/plugin.h>\n\nBRIM_PLUGIN(\"${name}\");\n")
  add_library(${name} SHARED ${plugin_SOURCES} ${marker})
  target_link_libraries(${name} PUBLIC brim::brim PRIVATE brim::formula_flags)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  set_target_properties(${name} PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  if(CMAKE_CUDA_COMPILER AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know yet that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20 PARENT_SCOPE)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20 PARENT_SCOPE)
  endif()
endfunction()
