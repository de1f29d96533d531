# Tests, fuzz targets and benchmarks.
# tests/<folder>/**/*_test.cpp -> one executable <folder>_test and one ctest entry <folder>: few processes,
# so ctest is quick; --gtest_filter narrows a run by hand. Tests run in the repository root and read
# BRIM_SOURCE_DIR from the environment (a definition would defeat ccache across clones).
if(BRIM_TESTS)
  enable_testing()
endif()

function(brim_add_test name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(factor 1)
  if(BRIM_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL Debug)
    set(factor 5)
  endif()
  math(EXPR timeout "${factor} * 240") # several times what a busy machine takes
  set(cost 0)
  if(name MATCHES "^(cli|cli_more|backend_cuda_emulated|golden|train|plan)$") # the longest: begun first, no core is idle at the end
    set(cost 100)
  endif()
  set_tests_properties(
    ${name}
    PROPERTIES TIMEOUT ${timeout} SKIP_RETURN_CODE 77 COST ${cost} ENVIRONMENT
               "BRIM_SOURCE_DIR=${PROJECT_SOURCE_DIR};BRIM_BUILD_DIR=${PROJECT_BINARY_DIR};XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache;${BRIM_TEST_ENVIRONMENT}")
endfunction()

if(BRIM_TESTS AND GTest_FOUND)
  file(GLOB_RECURSE test_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*_test.cpp)
  set(test_folders "")
  foreach(file IN LISTS test_files)
    get_filename_component(folder ${file} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${folder})
    string(REGEX REPLACE "/.*" "" name ${folder})
    list(APPEND test_folders ${name})
    list(APPEND test_files_of_${name} ${file})
  endforeach()
  list(REMOVE_DUPLICATES test_folders)
  if(NOT TARGET brim_cuda_emulated)
    list(REMOVE_ITEM test_folders emulation)
  endif()
  if(NOT TARGET brim_command)
    list(REMOVE_ITEM test_folders command)
  endif()
  # All test programs are compiled alike.
  function(brim_compile_test name)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE brim brim_datasets brim_private GTest::gtest_main)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>) # the time goes into compiling them
  endfunction()
  if(BRIM_PCH)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/test_headers.cpp CONTENT "")
    add_executable(brim_test_headers ${PROJECT_BINARY_DIR}/generated/test_headers.cpp) # code is compiled as for a program
    brim_compile_test(brim_test_headers)
    brim_precompile(brim_test_headers)
    target_precompile_headers(brim_test_headers PRIVATE <gtest/gtest.h>)
  endif()
  foreach(name IN LISTS test_folders)
    add_executable(${name}_test ${test_files_of_${name}})
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    brim_compile_test(${name}_test)
    brim_precompile(${name}_test REUSE_FROM brim_test_headers)
    brim_group(${name}_test)
    if(TARGET brim-cli AND name MATCHES "^(cli|command)$")
      add_dependencies(${name}_test brim-cli) # they run it; what others try with it they skip without
    endif()
    brim_add_test(${name} ${name}_test --gtest_brief=1)
  endforeach()
  set_tests_properties(doctor PROPERTIES RUN_SERIAL ON) # it measures
  if(TARGET command_test) # parts of the command by themselves
    target_link_libraries(command_test PRIVATE brim_command)
    if(BRIM_HAVE_CURSES)
      target_compile_definitions(command_test PRIVATE BRIM_HAVE_CURSES=1)
    endif()
  endif()
  # Half of them each: its processes take longer than any other program's.
  brim_add_test(cli_more cli_test --gtest_brief=1)
  foreach(shard IN ITEMS "cli;0" "cli_more;1")
    list(GET shard 0 name)
    list(GET shard 1 index)
    # LeakSanitizer (clang 14) crashes at the end of commands that loaded a backend, and without thread-local memory it reports
    # what that holds. Leaks show in the other tests.
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=${index} ASAN_OPTIONS=detect_leaks=0)
  endforeach()
  # Ops by name, for what compares brim with PyTorch; and drawn cases, for the test and for a program that draws.py runs.
  file(GLOB op_table_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/op_table/*.cpp)
  add_library(brim_op_table STATIC ${op_table_files} ${PROJECT_SOURCE_DIR}/tests/differential/draw.cpp)
  brim_compile_test(brim_op_table)
  target_link_libraries(golden_test PRIVATE brim_op_table)
  target_link_libraries(differential_test PRIVATE brim_op_table)
  add_executable(differential_run ${PROJECT_SOURCE_DIR}/tests/differential/run.cpp)
  set_target_properties(differential_run PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  brim_compile_test(differential_run)
  target_link_libraries(differential_run PRIVATE brim_op_table)
endif()

# Custom ops: the tests are of the examples', and of plugins that are in order and that are not.
if(TARGET extend_test)
  target_sources(extend_test PRIVATE examples/own_op/softsign.cpp examples/own_op/log_mean_exp.cpp examples/own_op/l1_distances.cpp)
  target_include_directories(extend_test PRIVATE ${PROJECT_SOURCE_DIR}/examples)
  set(plugins tests/extend/plugins)
  brim_add_plugin(plugin_seven SOURCES ${plugins}/seven.cpp)
  brim_add_plugin(plugin_taken SOURCES ${plugins}/taken.cpp)
  brim_add_plugin(plugin_unlinked SOURCES ${plugins}/unlinked.cpp)
  brim_add_plugin(plugin_bad_kernel SOURCES ${plugins}/bad_kernel.cpp)
  brim_add_plugin(plugin_swish SOURCES ${plugins}/swish.cpp)
  target_include_directories(plugin_swish PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  foreach(name IN ITEMS stale stranger forged)
    add_library(plugin_${name} SHARED ${plugins}/${name}.cpp)
  endforeach()
  target_link_libraries(plugin_stranger PRIVATE brim)
  target_link_libraries(plugin_forged PRIVATE brim)
  # The stale one once more, with a libbrim of its own that has what it needs.
  add_library(plugin_stale_brim SHARED ${plugins}/stale_brim.cpp)
  set_target_properties(plugin_stale_brim PROPERTIES PREFIX "" OUTPUT_NAME libbrim.so.0.0 SUFFIX "" NO_SONAME ON)
  target_link_options(plugin_stale_brim PRIVATE -Wl,-soname,libbrim.so.0.0)
  add_library(plugin_stale_linked SHARED ${plugins}/stale.cpp)
  target_link_libraries(plugin_stale_linked PRIVATE plugin_stale_brim)
  set(test_plugins plugin_seven plugin_taken plugin_unlinked plugin_bad_kernel plugin_swish plugin_stale plugin_stranger
                   plugin_forged plugin_stale_brim plugin_stale_linked)
  if(TARGET own_op_cuda)
    list(APPEND test_plugins own_op_cuda)
  endif()
  if(TARGET brim_cuda_emulated)
    brim_add_emulated_plugin(own_op_emulated SOURCES ${own_op_kernels})
    list(APPEND test_plugins own_op_emulated)
    add_dependencies(extend_test brim_cuda_emulated)
    brim_add_test(extend_cuda_emulated extend_test --gtest_brief=1 --gtest_filter=*Cuda*)
    set_property(TEST extend_cuda_emulated APPEND PROPERTY ENVIRONMENT "BRIM_BACKEND_PATH=$<TARGET_FILE:brim_cuda_emulated>"
                 "LSAN_OPTIONS=use_tls=0:suppressions=${PROJECT_SOURCE_DIR}/tools/lsan.supp")
  endif()
  set_target_properties(${test_plugins} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
  add_dependencies(extend_test ${test_plugins})
endif()

# What compiles formulas at run time needs no device: by NVRTC itself where it is, and by its fake.
if(TARGET backend_test)
  set(compile ${PROJECT_SOURCE_DIR}/src/backend/cuda/compile)
  target_sources(backend_test PRIVATE ${compile}/code_cache.cpp ${compile}/formula_code.cpp ${compile}/formula_program.cpp ${compile}/nvrtc.cpp
                                      ${PROJECT_SOURCE_DIR}/src/backend/cuda/runtime/dynamic_library.cpp ${brim_embedded_headers})
endif()

# What a kind of device must do, on the emulation of CUDA (see BrimCuda.cmake). On a GPU the same programs do it without
# BRIM_BACKEND_PATH: tools/gpu_check.sh.
find_program(BRIM_PYTHON python3)
if(TARGET brim_cuda_emulated AND TARGET contract_test)
  target_sources(emulation_test PRIVATE ${PROJECT_SOURCE_DIR}/src/backend/cuda/emulation/emulation.cpp)
  target_include_directories(emulation_test BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/src/backend/cuda/emulation)
  target_link_libraries(emulation_test PRIVATE Boost::context)
  # LeakSanitizer (clang 14) crashes at times while it reads thread-local memory at the end of these programs.
  set(emulated "BRIM_BACKEND_PATH=$<TARGET_FILE:brim_cuda_emulated>"
               "LSAN_OPTIONS=use_tls=0:suppressions=${PROJECT_SOURCE_DIR}/tools/lsan.supp")
  foreach(name IN ITEMS contract backend cli data dist train diag differential)
    add_dependencies(${name}_test brim_cuda_emulated)
  endforeach()
  brim_add_test(differential_cuda_emulated differential_test --gtest_brief=1 --gtest_filter=*Cuda*)
  set_property(TEST differential_cuda_emulated APPEND PROPERTY ENVIRONMENT ${emulated})
  brim_add_test(backend_cuda_emulated backend_test --gtest_brief=1 --gtest_filter=*Cuda*)
  set_property(TEST backend_cuda_emulated APPEND PROPERTY ENVIRONMENT ${emulated})
  # With the stream checker, which no correct program meets.
  brim_add_test(backend_cuda_checked backend_test --gtest_brief=1 --gtest_filter=*Cuda*:-CudaStreams.AWaitThatIsMissingShows:CudaStreams.AnEventIs*)
  set_property(TEST backend_cuda_checked APPEND PROPERTY ENVIRONMENT ${emulated} BRIM_CUDA_CHECK=1)
  brim_add_test(feed_cuda_emulated data_test --gtest_brief=1 --gtest_filter=*DeviceLoader*)
  brim_add_test(feed_training_cuda_emulated train_test --gtest_brief=1 --gtest_filter=*Feed*)
  set_property(TEST feed_cuda_emulated feed_training_cuda_emulated APPEND PROPERTY ENVIRONMENT ${emulated})
  # At once: queues that are emptied when somebody waits would make work end late.
  brim_add_test(diag_cuda_emulated diag_test --gtest_brief=1 --gtest_filter=*Planted*/cuda)
  set_property(TEST diag_cuda_emulated APPEND PROPERTY ENVIRONMENT ${emulated} BRIM_EMULATED_AT_ONCE=1)
  # Libraries of NVIDIA's that watch devices, as fakes over the emulation (tests/fakes).
  function(brim_add_fake name file)
    add_library(fake_${name} MODULE ${PROJECT_SOURCE_DIR}/tests/fakes/${name}.cpp)
    set_target_properties(fake_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${file} SUFFIX ""
                          LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fakes)
    target_link_options(fake_${name} PRIVATE -Wl,-soname,${file})
    target_include_directories(fake_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(fake_${name} SYSTEM PRIVATE ${brim_cuda_includes})
    target_compile_features(fake_${name} PRIVATE cxx_std_20)
    target_link_libraries(fake_${name} PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(backend_test fake_${name})
    add_dependencies(cli_test fake_${name})
  endfunction()
  brim_add_fake(nvml libnvidia-ml.so.1)
  brim_add_fake(driver libcuda.so.1)
  brim_add_fake(nvrtc libnvrtc.so.13)
  if(BRIM_CUPTI_INCLUDE)
    brim_add_fake(cupti libcupti.so.13)
  endif()
  if(BRIM_NVTX_INCLUDE)
    brim_add_fake(nvtx_tool libnvtx_tool.so)
  endif()
  # Formulas with a text, over the emulation.
  add_dependencies(extend_test fake_nvrtc)
  brim_add_test(extend_cuda_nvrtc extend_test --gtest_brief=1 --gtest_filter=*CudaFormula*)
  set_property(TEST extend_cuda_nvrtc APPEND PROPERTY ENVIRONMENT ${emulated} "BRIM_CUDA_LIBRARIES=${PROJECT_BINARY_DIR}/fakes"
               "BRIM_FAKE_COMPILER=${CMAKE_CXX_COMPILER}")
  set_property(TEST backend APPEND PROPERTY ENVIRONMENT "BRIM_FAKE_COMPILER=${CMAKE_CXX_COMPILER}")
  brim_add_test(backend_cuda_observed backend_test --gtest_brief=1 --gtest_filter=CudaObserve*)
  set_property(TEST backend_cuda_observed APPEND PROPERTY ENVIRONMENT ${emulated}
                                                          "BRIM_CUDA_LIBRARIES=${PROJECT_BINARY_DIR}/fakes")
  if(BRIM_PYTHON)
    brim_add_test(contract_cuda_emulated ${BRIM_PYTHON} tests/backend/cuda/cuda_tests.py $<TARGET_FILE:contract_test>)
    set_property(TEST contract_cuda_emulated APPEND PROPERTY ENVIRONMENT ${emulated})
  endif()
  # The same through what calls NVIDIA's libraries, over fakes of them.
  if(TARGET brim_fake_libraries)
    set(fakes ${emulated} BRIM_CUDA_LIBRARIES=${PROJECT_BINARY_DIR}/fakes XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/fakes)
    brim_add_test(backend_cuda_fakes backend_test --gtest_brief=1 --gtest_filter=CudaLibraries*:CudaProducts*:-*LargeTiles)
    set_property(TEST backend_cuda_fakes APPEND PROPERTY ENVIRONMENT ${fakes})
    if(BRIM_PYTHON)
      brim_add_test(contract_cuda_fakes ${BRIM_PYTHON} tests/backend/cuda/cuda_tests.py $<TARGET_FILE:contract_test>
                    --gtest_filter=*conv*:*matmul*:*linear*:*avg_pool*:*batch_norm*)
      set_property(TEST contract_cuda_fakes APPEND PROPERTY ENVIRONMENT ${fakes})
      if(BRIM_NCCL_INCLUDE)
        foreach(filter IN ITEMS CudaRanks.* CudaRanksFail.OtherCalls* CudaRanksFail.RanksThatEnd* CudaRanksFail.NcclsErrors*)
          string(REGEX REPLACE "[^A-Za-z]" "" name ${filter})
          brim_add_test(dist_${name} brim-cli launch -n 3 -- $<TARGET_FILE:dist_test> --gtest_brief=1 --gtest_filter=${filter})
          set_property(TEST dist_${name} APPEND PROPERTY ENVIRONMENT ${fakes})
        endforeach()
        brim_add_test(dist_CudaRanksShared brim-cli launch -n 3 -- $<TARGET_FILE:dist_test> --gtest_brief=1
                      --gtest_filter=CudaRanksFail.OneGpu*)
        set_property(TEST dist_CudaRanksShared APPEND PROPERTY ENVIRONMENT ${fakes} BRIM_EMULATED_SHARED=1)
        brim_add_test(train_cuda_ranks train_test --gtest_brief=1 --gtest_filter=SeveralGpus.*)
        set_property(TEST train_cuda_ranks APPEND PROPERTY ENVIRONMENT ${fakes})
      endif()
      # By execution plans of cuDNN's, which the fake then has faster than its algorithms.
      brim_add_test(contract_cuda_plans ${BRIM_PYTHON} tests/backend/cuda/cuda_tests.py $<TARGET_FILE:contract_test> --gtest_filter=*conv*)
      set_property(TEST contract_cuda_plans APPEND PROPERTY ENVIRONMENT ${fakes} XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/fakes/plans
                                                            BRIM_FAKE=fast-plans)
    endif()
  endif()
  if(BRIM_PYTHON AND NOT BRIM_SANITIZE)
    brim_add_test(contract_cuda_backwards ${BRIM_PYTHON} tests/backend/cuda/cuda_tests.py $<TARGET_FILE:contract_test>)
    set_property(TEST contract_cuda_backwards APPEND PROPERTY ENVIRONMENT ${emulated} BRIM_EMULATED_BACKWARDS=1)
  endif()
endif()

# Fifteen thousand draws, others each day, where BRIM_PYTHON has PyTorch; the process that computes them is not for sanitizers.
if(TARGET differential_run AND BRIM_PYTHON AND NOT BRIM_SANITIZE)
  brim_add_test(differential_draws ${BRIM_PYTHON} tests/differential/draws.py --runner $<TARGET_FILE:differential_run>)
  set_tests_properties(differential_draws PROPERTIES TIMEOUT 900 RUN_SERIAL ON)
  if(TARGET brim_cuda_emulated)
    set_property(TEST differential_draws APPEND PROPERTY ENVIRONMENT ${emulated})
  endif()
endif()

# What tools/gpu_check.sh says of its steps, and of archives that it cannot check.
if(BRIM_TESTS AND NOT BRIM_SANITIZE)
  brim_add_test(gpu_steps ${PROJECT_SOURCE_DIR}/tests/tools/gpu_steps_test.sh)
  brim_add_test(gpu_prebuilt ${PROJECT_SOURCE_DIR}/tests/tools/gpu_prebuilt_test.sh)
endif()

if(BRIM_TESTS AND BRIM_PYTHON AND NOT BRIM_SANITIZE)
  brim_add_test(cuda_tests ${BRIM_PYTHON} tests/backend/cuda/cuda_tests_test.py)
  brim_add_test(docs ${BRIM_PYTHON} tests/docs/examples_test.py ${CMAKE_CXX_COMPILER} include src tests ${PROJECT_BINARY_DIR}/generated)
  brim_add_test(docs_torch ${BRIM_PYTHON} -B tests/docs/guide_torch.py docs/COMING_FROM.md) # skipped without PyTorch
  brim_add_test(api_reference ${BRIM_PYTHON} -B tests/docs/api_reference_test.py)
  brim_add_test(cuda_begin_kernel ${BRIM_PYTHON} tests/backend/cuda/begin_kernel_test.py)
  brim_add_test(kernel_table ${BRIM_PYTHON} tests/tools/kernel_table_test.py)
  brim_add_test(ncu_table ${BRIM_PYTHON} tests/tools/ncu_table_test.py)
  if(TARGET brim-cli)
    brim_add_test(cluster_files ${BRIM_PYTHON} tests/tools/cluster_files_test.py $<TARGET_FILE:brim-cli>)
  endif()
endif()

# The examples of docs/COMING_FROM.md that run are one program, as a reader would build it.
if(BRIM_TESTS AND BRIM_PYTHON)
  set(guide ${PROJECT_BINARY_DIR}/generated/coming_from.cpp)
  add_custom_command(
    OUTPUT ${guide}
    COMMAND ${BRIM_PYTHON} -B tests/docs/guide_program.py write docs/COMING_FROM.md ${guide}
    DEPENDS ${PROJECT_SOURCE_DIR}/docs/COMING_FROM.md ${PROJECT_SOURCE_DIR}/tests/docs/guide_program.py
            ${PROJECT_SOURCE_DIR}/tests/docs/examples_test.py
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_executable(docs_coming_from ${guide})
  set_target_properties(docs_coming_from PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(docs_coming_from PRIVATE brim brim_flags)
  target_compile_options(docs_coming_from PRIVATE -w) # what an example shows need not be used
  brim_add_test(docs_coming_from ${BRIM_PYTHON} -B tests/docs/guide_program.py check docs/COMING_FROM.md
                $<TARGET_FILE:docs_coming_from> docs/COMING_FROM.ko.md)
endif()

# Options that name only what differs compile without a warning.
if(BRIM_TESTS AND BRIM_PYTHON)
  brim_add_test(designated_options ${BRIM_PYTHON} tests/docs/options_test.py ${CMAKE_CXX_COMPILER} include ${PROJECT_BINARY_DIR}/generated)
endif()

# The short examples, as somebody would run them.
if(BRIM_TESTS AND BRIM_EXAMPLES AND BRIM_PYTHON)
  brim_add_test(examples ${BRIM_PYTHON} -B tests/docs/run_examples.py ${PROJECT_BINARY_DIR}/examples)
endif()

# What cmake/BrimDefaults.cmake has ccache do.
if(BRIM_TESTS AND BRIM_CCACHE AND NOT BRIM_SANITIZE)
  brim_add_test(ccache ${PROJECT_SOURCE_DIR}/tests/tools/ccache_test.sh ${CMAKE_CXX_COMPILER})
endif()

# One binary serves machines with and without CUDA.
if(BRIM_TESTS AND CMAKE_READELF)
  set(free_of_cuda $<TARGET_FILE:brim>)
  if(TARGET brim-cli)
    list(APPEND free_of_cuda $<TARGET_FILE:brim-cli> $<TARGET_FILE:brim_command>)
  endif()
  brim_add_test(cuda_free tests/backend/cuda/cuda_free.sh ${CMAKE_READELF} ${free_of_cuda})
endif()

# Wrappers of brim_rt.h, over a library that stands for libbrim_rt and reports each of its errors.
if(TARGET rt_wrappers_test)
  target_sources(rt_wrappers_test PRIVATE tests/rt_wrappers/fake_runtime.cpp)
endif()
if(BRIM_TESTS) # for programs of C11 and C++17, whatever else they switch on
  brim_add_test(rt_c11 ${CMAKE_CXX_COMPILER} -fsyntax-only -pedantic -Wall -Wextra -Werror -Iinclude -include brim_rt.h -x c -std=c11 /dev/null)
  brim_add_test(rt_cpp17 ${CMAKE_CXX_COMPILER} -fsyntax-only -pedantic -Wall -Wextra -Werror -Iinclude -include brim_rt.hpp -x c++ -std=c++17 /dev/null)
endif()
if(BRIM_TESTS AND BRIM_PYTHON AND NOT BRIM_SANITIZE)
  add_library(fake_brim_rt MODULE tests/rt_wrappers/fake_runtime.cpp)
  target_include_directories(fake_brim_rt PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(fake_brim_rt PRIVATE brim_flags)
  set_target_properties(fake_brim_rt PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fakes)
  brim_add_test(rt_python ${BRIM_PYTHON} tests/rt_wrappers/brim_rt_test.py $<TARGET_FILE:fake_brim_rt>)
endif()

# `kill -9` at random moments of a training run, each followed by --resume; by hand with --kills 50.
if(BRIM_TESTS AND BRIM_PYTHON AND TARGET brim-cli)
  brim_add_test(train_kills ${BRIM_PYTHON} tests/train/kill_resume.py $<TARGET_FILE:brim-cli> --kills 5)
  # LeakSanitizer may say on standard error that a thread ended while it looked, and this test wants nothing there.
  set_property(TEST train_kills APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
endif()

# What the scripts of bench/ that measure PyTorch make of their measurements; these need none.
if(BRIM_TESTS AND BRIM_PYTHON)
  brim_add_test(bench_report ${BRIM_PYTHON} tests/bench/report_test.py)
  brim_add_test(bench_sweep ${BRIM_PYTHON} tests/bench/sweep_test.py)
  brim_add_test(bench_deploy ${BRIM_PYTHON} tests/bench/deploy_test.py)
endif()

# tests/fuzz/<name>_fuzz.cpp defines LLVMFuzzerTestOneInput; its seeds lie in tests/fuzz/corpus/<name>/.
# Under BRIM_FUZZ it is a libFuzzer program, otherwise a plain one that runs the seeds once.
if(BRIM_TESTS)
  file(GLOB fuzz_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)
  foreach(file IN LISTS fuzz_files)
    get_filename_component(target ${file} NAME_WE)
    string(REGEX REPLACE "_fuzz$" "" name ${target})
    add_executable(${target} ${file})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${target} PRIVATE brim brim_private)
    set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    if(BRIM_FUZZ)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      brim_add_test(fuzz_${name} ${target} -runs=0 ${corpus})
    else()
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/fuzz_replay.cpp)
      brim_add_test(fuzz_${name} ${target} ${corpus})
    endif()
  endforeach()
endif()

# bench/micro/**/*_bench.cpp -> build/bench/<name>_bench, by `ninja bench` only.
if(BRIM_BENCH)
  add_custom_target(bench)
  if(benchmark_FOUND)
    file(GLOB_RECURSE bench_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/micro/*_bench.cpp)
    foreach(file IN LISTS bench_files)
      get_filename_component(target ${file} NAME_WE)
      add_executable(${target} EXCLUDE_FROM_ALL ${file})
      set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
      target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
      target_link_libraries(${target} PRIVATE brim brim_private benchmark::benchmark)
      add_dependencies(bench ${target})
    endforeach()
  endif()
endif()
