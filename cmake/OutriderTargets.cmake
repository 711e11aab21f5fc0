# Functions that define libraries, programs and tests, and the compiler options that all share.

add_library(outrider_warnings INTERFACE)
option(OUTRIDER_WERROR "Warnings are errors" OFF)
set(warnings -Wall -Wextra -Wshadow)
if(OUTRIDER_WERROR)
  list(APPEND warnings -Werror)
endif()
# Designated initialisers leave out what keeps its default, on purpose.
list(APPEND warnings -Wno-missing-field-initializers)
# Under sanitizers g++ takes much for uninitialized that is not (its manual says so).
if(OUTRIDER_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND warnings -Wno-maybe-uninitialized)
endif()
# In a unity build each source is an included file, and g++ warns of its unnamed namespace.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND warnings -Wno-subobject-linkage)
endif()
list(JOIN warnings "," cuda_warnings)
# Not pedantic for nvcc, whose own output violates the rule on #line.
target_compile_options(outrider_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${warnings};-Wpedantic>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${cuda_warnings}>")

add_library(outrider_flags INTERFACE)
target_include_directories(outrider_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(OUTRIDER_SANITIZE STREQUAL "address")
  target_compile_options(outrider_flags INTERFACE -fsanitize=address,undefined
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_compile_definitions(outrider_flags INTERFACE OUTRIDER_ADDRESS_SANITIZER)
  target_link_options(outrider_flags INTERFACE -fsanitize=address,undefined)
elseif(OUTRIDER_SANITIZE STREQUAL "thread")
  target_compile_options(outrider_flags INTERFACE -fsanitize=thread)
  target_compile_definitions(outrider_flags INTERFACE OUTRIDER_THREAD_SANITIZER)
  target_link_options(outrider_flags INTERFACE -fsanitize=thread)
elseif(OUTRIDER_SANITIZE STREQUAL "fuzzer")
  # Coverage counters everywhere; the programs of tests/fuzz bring libFuzzer's main.
  target_compile_options(outrider_flags INTERFACE -fno-omit-frame-pointer
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  target_compile_definitions(outrider_flags INTERFACE OUTRIDER_ADDRESS_SANITIZER)
  target_link_options(outrider_flags INTERFACE -fsanitize=address,undefined)
endif()

# outrider_library(name SRCS a.cc b.cc DEPS x y PRIVATE_DEPS z EDGE): a static library. Its users get
# DEPS too, PRIVATE_DEPS are its own. Without SRCS: header only.
# EDGE: it connects users, the network and the rest. Such code is slow to compile and seldom runs
# long, so the address sanitizer does without optimization there, which takes a third of the time.
function(outrider_library name)
  cmake_parse_arguments(ARG "EDGE" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    target_link_libraries(${name} PUBLIC outrider_flags ${ARG_DEPS}
                                  PRIVATE outrider_warnings ${ARG_PRIVATE_DEPS})
    if(ARG_EDGE AND OUTRIDER_SANITIZE STREQUAL "address")
      target_compile_options(${name} PRIVATE -O0)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE outrider_flags ${ARG_DEPS})
  endif()
endfunction()

# outrider_highway_sources(a.cc b.cc): sources that use Highway. With a check of each pointer that
# Highway takes apart, clang needs four times as long for them; the address sanitizer checks what
# is read and written there. Its emulated vectors convert NaN to int in lanes that are not used.
function(outrider_highway_sources)
  if(OUTRIDER_SANITIZE MATCHES "address|fuzzer")
    set_source_files_properties(${ARGN} PROPERTIES
      COMPILE_OPTIONS -fno-sanitize=alignment,float-cast-overflow,pointer-overflow)
  endif()
endfunction()

# outrider_program(name SRCS main.cc DEPS x)
function(outrider_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE outrider_flags outrider_warnings ${ARG_DEPS})
endfunction()

# g++ 12 mistakes moves of short strings for copies beyond their end.
set(OUTRIDER_TEST_WARNINGS
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow>)
# This halves the tests' compile time. Libraries under test keep their flags; templates and inline
# functions of theirs that a test uses too may be the test's, and under the thread sanitizer tests
# would run twice as long. All test programs need the same options to share precompiled headers.
set(OUTRIDER_TEST_FLAGS -pthread $<$<CONFIG:RelWithDebInfo>:-g0> ${OUTRIDER_TEST_WARNINGS})
if(NOT OUTRIDER_SANITIZE STREQUAL "thread")
  list(APPEND OUTRIDER_TEST_FLAGS -O0)
endif()

# outrider_test(name SRCS a_test.cc DEPS x LABEL unit|rpc|slow TIMEOUT seconds PREFIX text PCH headers
# TOGETHER entry OPTIMIZED SLOW_UNDER_SANITIZERS): a test program; each of its cases is a ctest entry,
# with PREFIX before its name. PCH: headers that its sources share and that are slow to parse,
# precompiled with GoogleTest's. TOGETHER: the cases are one entry of that name, as they share a set-up
# that takes seconds. OPTIMIZED: its own code takes many seconds. SLOW_UNDER_SANITIZERS: takes minutes
# there to run what other tests run too, and is labelled slow.
function(outrider_test name)
  cmake_parse_arguments(ARG "OPTIMIZED;SLOW_UNDER_SANITIZERS" "LABEL;TIMEOUT;PREFIX;TOGETHER"
    "SRCS;DEPS;PCH" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(OUTRIDER_SANITIZE AND ARG_SLOW_UNDER_SANITIZERS)
    set(ARG_LABEL slow)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE outrider_flags outrider_warnings ${ARG_DEPS}
                                        GTest::gmock_main)
  target_compile_definitions(${name} PRIVATE OUTRIDER_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             OUTRIDER_BINARY_DIR="${PROJECT_BINARY_DIR}")
  if(ARG_OPTIMIZED)
    target_compile_options(${name} PRIVATE ${OUTRIDER_TEST_WARNINGS})
  else()
    target_compile_options(${name} PRIVATE ${OUTRIDER_TEST_FLAGS})
    if(ARG_PCH)
      target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h> ${ARG_PCH})
    else()
      target_precompile_headers(${name} REUSE_FROM outrider_test_headers)
    endif()
  endif()
  # The sanitizers leave slow tests out.
  if(OUTRIDER_SANITIZE AND ARG_LABEL STREQUAL "slow")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  # Slow tests begin first, so that the cores are busy to the end.
  if(ARG_LABEL STREQUAL "slow")
    set(cost 100)
  else()
    set(cost 1)
  endif()
  if(ARG_TOGETHER)
    add_test(NAME ${ARG_TOGETHER} COMMAND ${name})
    set_tests_properties(${ARG_TOGETHER}
      PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} COST ${cost})
    return()
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES TEST_PREFIX "${ARG_PREFIX}"
    PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} COST ${cost})
endfunction()

# outrider_python_test(Name script.py): a script that starts the programs; it is given the source and the
# binaries' folder, and says why if it skips itself.
function(outrider_python_test name script)
  # Prefers Debian's interpreter, which finds Debian's modules, over another one on the PATH.
  find_program(OUTRIDER_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
  find_program(OUTRIDER_PYTHON3 python3)
  if(NOT OUTRIDER_PYTHON3)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${OUTRIDER_PYTHON3} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script}
                                ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/bin)
  set_tests_properties(${name} PROPERTIES LABELS rpc TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support)
endfunction()

# outrider_emulated_cuda_library(name SRCS a.cu b.cc DEPS x): CUDA sources compiled as plain C++
# against tests/support/cuda_emulation, for tests on a machine without a device.
function(outrider_emulated_cuda_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  set(kernels ${ARG_SRCS})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  # "#pragma unroll" is for nvcc: g++ does not know it, and clang warns if it cannot unroll.
  set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX
    COMPILE_OPTIONS "-Wno-unknown-pragmas;$<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>")
  outrider_library(${name} SRCS ${ARG_SRCS} DEPS outrider_cuda_emulation ${ARG_DEPS})
endfunction()
