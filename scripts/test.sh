#!/usr/bin/env bash
# Installs, builds and tests; the last line is the verdict.
#   scripts/test.sh          the build that is shipped, every test
#   scripts/test.sh --asan   under the address and undefined-behaviour sanitizers, no slow tests
#   scripts/test.sh --tsan   under the thread sanitizer, the tests that link no gRPC
#   scripts/test.sh --lint   formatting, clang's thread-safety analysis, clang-tidy; runs no test
set -euo pipefail
cd "$(dirname "$0")/.."

mode=cpu
case "${1:-}" in
  "") ;;
  --asan) mode=asan ;;
  --tsan) mode=tsan ;;
  --lint) mode=lint ;;
  *) echo "usage: scripts/test.sh [--asan|--tsan|--lint]" >&2; exit 2 ;;
esac

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }
verdict() {
  if (($1 == 0)); then
    printf '\n%s: PASSED after %d s\n' "$mode" "$SECONDS"
  else
    printf '\n%s: FAILED after %d s\n' "$mode" "$SECONDS"
  fi
}
trap 'verdict $?' EXIT

step "install"
if [[ $mode == lint ]]; then scripts/setup.sh --lint; else scripts/setup.sh --tests; fi
step "configure"
# Where there is nvcc the CUDA backend is compiled, for one chip: kernels run as tests on the host.
cmake --preset "$mode" -D OUTRIDER_CUDA_ARCHITECTURES="${OUTRIDER_CUDA_ARCHITECTURES:-90}"
jobs=$(nproc)

if [[ $mode == lint ]]; then
  mapfile -t sources < <(git ls-files '*.cc')
  mapfile -t formatted < <(git ls-files '*.cc' '*.h' '*.cu')
  step "format of ${#formatted[@]} files"
  clang-format --dry-run --Werror "${formatted[@]}"
  step "thread-safety analysis"
  cmake --build --preset lint -- -k 0
  step "clang-tidy on ${#sources[@]} files"
  # Only what the build compiles: benchmarks may be switched off.
  grep -o '"file": "[^"]*"' build/lint/compile_commands.json | cut -d'"' -f4 | sort -u |
    grep -Fxf <(printf "$PWD/%s\n" "${sources[@]}") |
    xargs -P "$jobs" -n 4 clang-tidy -p build/lint --quiet
  exit 0
fi

step "build"
cmake --build --preset "$mode"
# Tests without a service run side by side; services need the cores for themselves.
step "unit tests"
ctest --preset "$mode" -L '^unit$' -j "$jobs" --no-tests=error
step "tests with services"
case "$mode" in
  cpu) ctest --preset cpu -LE '^unit$' --no-tests=error ;;
  asan) ctest --preset asan -L '^rpc$' --no-tests=error ;;
  tsan) echo "none: gRPC is built without the thread sanitizer" ;;
esac
