# cmake --install: headers, libbrim, the command with its comparison, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)

install(TARGETS brim brim_datasets brim_rt brim_rt_static EXPORT brimTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET brim-cli)
  install(TARGETS brim_command EXPORT brimTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(TARGET brim_http)
    install(TARGETS brim_http LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
  install(FILES ${PROJECT_BINARY_DIR}/brim-command.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(TARGETS brim-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # For `brim bench compare`, `sweep` and `deploy`.
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/bench/compare_torch.py ${PROJECT_SOURCE_DIR}/bench/sweep_torch.py ${PROJECT_SOURCE_DIR}/bench/compare_deploy.py
          DESTINATION ${CMAKE_INSTALL_DATADIR}/brim/bench)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/compare DESTINATION ${CMAKE_INSTALL_DATADIR}/brim/bench
          FILES_MATCHING PATTERN "*.py")
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/brim ${PROJECT_BINARY_DIR}/generated/brim
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# The runtime of engines, and its wrappers, each one file.
install(FILES ${PROJECT_SOURCE_DIR}/include/brim_rt.h ${PROJECT_SOURCE_DIR}/include/brim_rt.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Its sources, for `brim export --runtime`: with all headers that they may include.
foreach(folder IN ITEMS src/rt src/formula src/backend/cpu/conv src/backend/cpu/int8 include/brim/core include/brim/formula)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/brim/rt/${folder}
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/rt/ DESTINATION ${CMAKE_INSTALL_DATADIR}/brim/rt/src/rt FILES_MATCHING PATTERN "*.cpp")
install(FILES ${PROJECT_SOURCE_DIR}/src/core/hash.h ${PROJECT_SOURCE_DIR}/src/core/hash.cpp ${PROJECT_SOURCE_DIR}/src/core/cpu_quota.h
              ${PROJECT_SOURCE_DIR}/src/core/cpu_quota.cpp DESTINATION ${CMAKE_INSTALL_DATADIR}/brim/rt/src/core)
install(FILES ${PROJECT_SOURCE_DIR}/include/brim_rt.h ${PROJECT_SOURCE_DIR}/include/brim_rt.hpp DESTINATION ${CMAKE_INSTALL_DATADIR}/brim/rt/include)
install(FILES ${PROJECT_SOURCE_DIR}/python/brim_rt.py DESTINATION ${CMAKE_INSTALL_DATADIR}/brim/python)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright) # as Debian calls it

set(brim_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/brim)
install(EXPORT brimTargets NAMESPACE brim:: DESTINATION ${brim_package_dir})
configure_package_config_file(cmake/brimConfig.cmake.in ${PROJECT_BINARY_DIR}/brimConfig.cmake INSTALL_DESTINATION ${brim_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/brimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/BrimPlugin.cmake ${PROJECT_BINARY_DIR}/brimConfig.cmake ${PROJECT_BINARY_DIR}/brimConfigVersion.cmake DESTINATION ${brim_package_dir})

# Relative to the file itself, so that an installed tree can be moved.
file(RELATIVE_PATH brim_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" brim_pc_to_prefix "${brim_pc_to_prefix}")
configure_file(cmake/brim.pc.in ${PROJECT_BINARY_DIR}/brim.pc @ONLY)
configure_file(cmake/brim-datasets.pc.in ${PROJECT_BINARY_DIR}/brim-datasets.pc @ONLY)
configure_file(cmake/brim-rt.pc.in ${PROJECT_BINARY_DIR}/brim-rt.pc @ONLY)
configure_file(cmake/brim-command.pc.in ${PROJECT_BINARY_DIR}/brim-command.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/brim.pc ${PROJECT_BINARY_DIR}/brim-datasets.pc ${PROJECT_BINARY_DIR}/brim-rt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
