# Finds every library and gathers it in the interface target brim_deps, with BRIM_HAVE_<X> defined for
# each one found. A required one that is missing stops the configuration with the package to install;
# an optional one switches its part off.
# BRIM_DEPS, a CMake or an environment variable: a folder with these libraries, laid out as under /usr, for hosts
# without packages; tools/gpu_deps.sh makes it.
if(NOT BRIM_DEPS AND DEFINED ENV{BRIM_DEPS})
  set(BRIM_DEPS $ENV{BRIM_DEPS} CACHE PATH "A folder with the libraries brim needs, laid out as under /usr")
endif()
if(BRIM_DEPS)
  if(NOT IS_DIRECTORY ${BRIM_DEPS})
    message(FATAL_ERROR "BRIM_DEPS names ${BRIM_DEPS}, which is no folder; tools/gpu_deps.sh makes one")
  endif()
  get_filename_component(brim_deps_folder ${BRIM_DEPS} ABSOLUTE)
  list(PREPEND CMAKE_PREFIX_PATH ${brim_deps_folder})
  if(NOT CMAKE_LIBRARY_ARCHITECTURE) # Debian's folder for libraries, which compilers elsewhere do not know
    set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
  endif()
endif()

find_package(PkgConfig QUIET)
find_package(Threads REQUIRED)

add_library(brim_deps INTERFACE)
target_link_libraries(brim_deps INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
set(brim_found "")
set(brim_missing "")
set(brim_missing_required "")

# brim_dependency(ID PACKAGE apt-package [TARGETS any-of...] [REQUIRED] [VERSION v] [SOURCES file...])
# Takes the first of TARGETS that exists. With SOURCES only those files see BRIM_HAVE_<ID>.
function(brim_dependency id)
  cmake_parse_arguments(arg "REQUIRED" "APT;VERSION;TARGET_OUT" "TARGETS;SOURCES" ${ARGN})
  if(arg_SOURCES) # alone whether the library is there or not
    set_property(SOURCE ${arg_SOURCES} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  foreach(target IN LISTS arg_TARGETS)
    if(TARGET ${target})
      target_link_libraries(brim_deps INTERFACE ${target})
      if(arg_SOURCES)
        set_property(SOURCE ${arg_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS BRIM_HAVE_${id}=1)
        set_property(SOURCE ${arg_SOURCES} PROPERTY SKIP_PRECOMPILE_HEADERS ON) # made without that definition
      else()
        target_compile_definitions(brim_deps INTERFACE BRIM_HAVE_${id}=1)
      endif()
      set(BRIM_HAVE_${id} ON PARENT_SCOPE)
      string(TOLOWER ${id} name)
      string(STRIP "${name} ${arg_VERSION}" found)
      set(brim_found ${brim_found} ${found} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(BRIM_HAVE_${id} OFF PARENT_SCOPE)
  if(arg_REQUIRED)
    set(brim_missing_required ${brim_missing_required} ${arg_APT} PARENT_SCOPE)
  else()
    set(brim_missing ${brim_missing} ${arg_APT} PARENT_SCOPE)
  endif()
endfunction()

# Required. ----------------------------------------------------------------------------------------
find_package(OpenMP QUIET)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(brim_omp_apt libomp-dev)
else()
  set(brim_omp_apt g++)
endif()
brim_dependency(OPENMP TARGETS OpenMP::OpenMP_CXX APT ${brim_omp_apt} VERSION "${OpenMP_CXX_VERSION}" REQUIRED)

# Not find_package(dnnl): Debian's package file asks for OpenCL, which is not needed.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
  file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" digits "${lines}")
  list(JOIN digits "." dnnl_VERSION)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
brim_dependency(DNNL TARGETS DNNL::dnnl APT libdnnl-dev VERSION "${dnnl_VERSION}" REQUIRED)

if(PkgConfig_FOUND)
  pkg_check_modules(BRIM_HWY QUIET IMPORTED_TARGET libhwy)
  pkg_check_modules(BRIM_TOML QUIET IMPORTED_TARGET tomlplusplus)
endif()
if(NOT TARGET PkgConfig::BRIM_HWY)
  find_package(hwy CONFIG QUIET)
endif()
brim_dependency(HWY TARGETS PkgConfig::BRIM_HWY hwy::hwy APT libhwy-dev VERSION "${BRIM_HWY_VERSION}" REQUIRED)

# The distributions' compiled toml++ is preferred: it spares parsing the implementation in each file.
if(NOT TARGET PkgConfig::BRIM_TOML)
  find_package(tomlplusplus CONFIG QUIET)
endif()
brim_dependency(TOML TARGETS PkgConfig::BRIM_TOML tomlplusplus::tomlplusplus APT libtomlplusplus-dev VERSION "${BRIM_TOML_VERSION}" REQUIRED)

find_package(fmt CONFIG QUIET)
brim_dependency(FMT TARGETS fmt::fmt APT libfmt-dev VERSION "${fmt_VERSION}" REQUIRED)

find_package(nlohmann_json CONFIG QUIET)
brim_dependency(JSON TARGETS nlohmann_json::nlohmann_json APT nlohmann-json3-dev VERSION "${nlohmann_json_VERSION}" REQUIRED)

find_package(ZLIB QUIET)
brim_dependency(ZLIB TARGETS ZLIB::ZLIB APT zlib1g-dev VERSION "${ZLIB_VERSION_STRING}" REQUIRED)

# Only its header: the functions are compiled in.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
mark_as_advanced(XXHASH_INCLUDE_DIR)
if(XXHASH_INCLUDE_DIR)
  file(STRINGS ${XXHASH_INCLUDE_DIR}/xxhash.h lines REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE) ")
  list(TRANSFORM lines REPLACE ".* ([0-9]+)$" "\\1" OUTPUT_VARIABLE digits)
  list(JOIN digits "." xxhash_VERSION)
  add_library(brim_xxhash INTERFACE)
  target_include_directories(brim_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
endif()
brim_dependency(XXHASH TARGETS brim_xxhash APT libxxhash-dev VERSION "${xxhash_VERSION}" REQUIRED)

find_path(MD_INCLUDE_DIR md5.h)
find_library(MD_LIBRARY md)
mark_as_advanced(MD_INCLUDE_DIR MD_LIBRARY)
if(MD_INCLUDE_DIR AND MD_LIBRARY)
  add_library(brim_md UNKNOWN IMPORTED)
  set_target_properties(brim_md PROPERTIES IMPORTED_LOCATION ${MD_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${MD_INCLUDE_DIR})
endif()
brim_dependency(MD TARGETS brim_md APT libmd-dev REQUIRED)

find_package(CLI11 CONFIG QUIET)
brim_dependency(CLI11 TARGETS CLI11::CLI11 APT libcli11-dev VERSION "${CLI11_VERSION}")

# Optional. ----------------------------------------------------------------------------------------
find_package(JPEG QUIET)
brim_dependency(JPEG TARGETS JPEG::JPEG APT libjpeg-dev VERSION "${JPEG_VERSION}")

find_package(PNG QUIET)
brim_dependency(PNG TARGETS PNG::PNG APT libpng-dev VERSION "${PNG_VERSION_STRING}")

find_package(LibArchive QUIET)
brim_dependency(ARCHIVE TARGETS LibArchive::LibArchive APT libarchive-dev VERSION "${LibArchive_VERSION}")

# Opened at run time, so only its headers are needed: linked, it would load two dozen libraries at every start.
find_package(CURL QUIET)
if(CURL_FOUND)
  add_library(brim_curl_headers INTERFACE)
  target_include_directories(brim_curl_headers SYSTEM INTERFACE ${CURL_INCLUDE_DIRS})
endif()
brim_dependency(CURL TARGETS brim_curl_headers APT libcurl4-openssl-dev VERSION "${CURL_VERSION_STRING}"
                SOURCES src/data/get/download.cpp src/command/libraries.cpp)

# Of libbrim_http.so alone, which is opened where a command serves: linked, it would load OpenSSL at every start.
if(PkgConfig_FOUND)
  pkg_check_modules(BRIM_HTTPLIB QUIET IMPORTED_TARGET cpp-httplib)
endif()
if(TARGET PkgConfig::BRIM_HTTPLIB)
  list(APPEND brim_found "httplib ${BRIM_HTTPLIB_VERSION}")
  set_property(SOURCE src/command/libraries.cpp APPEND PROPERTY COMPILE_DEFINITIONS BRIM_HTTPLIB_VERSION="${BRIM_HTTPLIB_VERSION}")
else()
  list(APPEND brim_missing libcpp-httplib-dev)
endif()

# Terminals. Only its libraries are taken: what pkg-config says of its macros would recompile everything.
set(CURSES_NEED_WIDE TRUE)
find_package(Curses QUIET)
if(CURSES_FOUND)
  find_file(CURSES_HEADER curses.h PATHS ${CURSES_INCLUDE_DIRS})
  mark_as_advanced(CURSES_HEADER)
  file(STRINGS ${CURSES_HEADER} lines REGEX "define NCURSES_VERSION \"")
  string(REGEX REPLACE ".*\"(.*)\"" "\\1" curses_VERSION "${lines}")
  add_library(brim_curses INTERFACE)
  target_link_libraries(brim_curses INTERFACE ${CURSES_LIBRARIES})
  target_include_directories(brim_curses SYSTEM INTERFACE ${CURSES_INCLUDE_DIRS})
endif()
brim_dependency(CURSES TARGETS brim_curses APT libncurses-dev VERSION "${curses_VERSION}"
                SOURCES src/command/top/terminal.cpp src/command/top/terminal_type.cpp src/command/libraries.cpp)

# A script, which becomes a part of the command (cmake/EmbedReport.cmake).
find_file(BRIM_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist)
mark_as_advanced(BRIM_CHART_JS)
if(BRIM_CHART_JS)
  file(READ ${BRIM_CHART_JS} head LIMIT 200)
  string(REGEX MATCH "Chart.js v([0-9.]+)" head "${head}")
  set(chart_js_VERSION ${CMAKE_MATCH_1})
  add_library(brim_chart_js INTERFACE)
endif()
brim_dependency(CHART_JS TARGETS brim_chart_js APT libjs-chart.js VERSION "${chart_js_VERSION}" SOURCES src/command/libraries.cpp)

if(BRIM_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    list(APPEND brim_missing "libgtest-dev (tests)")
  endif()
endif()
if(BRIM_BENCH)
  find_package(benchmark CONFIG QUIET)
  if(NOT benchmark_FOUND)
    list(APPEND brim_missing "libbenchmark-dev (benchmarks)")
  endif()
endif()

if(brim_missing_required)
  list(JOIN brim_missing_required " " packages)
  message(FATAL_ERROR "brim needs libraries that were not found; run tools/setup.sh, or: apt-get install ${packages}")
endif()

function(brim_print_summary)
  list(JOIN brim_found ", " found)
  message(STATUS "brim ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  message(STATUS "  found:   ${found}")
  if(brim_missing)
    list(JOIN brim_missing " " missing)
    message(STATUS "  missing: ${missing} (those parts are off; tools/setup.sh installs them)")
  endif()
  if(BRIM_SANITIZE)
    message(STATUS "  sanitizers: ${BRIM_SANITIZE}")
  endif()
endfunction()
