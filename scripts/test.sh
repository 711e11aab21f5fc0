#!/usr/bin/env bash
# Installs, builds and tests; the last line is the verdict.
#   scripts/test.sh          the build that is shipped, every test (that of the benchmarks if OUTRIDER_BENCH=ON)
#   scripts/test.sh --quick  its unit tests only
#   scripts/test.sh --asan   under the address, leak and undefined-behaviour sanitizers, no slow tests
#   scripts/test.sh --tsan   under the thread sanitizer, the tests that link no gRPC
#   scripts/test.sh --lint   formatting, clang's warnings (thread safety too), clang-tidy; runs no test
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/verdict.sh

mode=cpu quick=0
case "${1:-}" in
  "") ;;
  --quick) quick=1 ;;
  --asan) mode=asan ;;
  --tsan) mode=tsan ;;
  --lint) mode=lint ;;
  *) echo "usage: scripts/test.sh [--quick|--asan|--tsan|--lint]" >&2; exit 2 ;;
esac
verdict_for "$mode$( ((quick)) && echo ", unit tests" || true)"

jobs=$(nproc)
step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

# print_slowest LOG: prints the ten slowest tests.
print_slowest() {
  step "slowest tests"
  sed -nE 's|^ *[0-9]+/[0-9]+ Test +#[0-9]+: ([^ ]+).* ([0-9.]+) sec.*|\2 s  \1|p' "$1" |
    sort -rn | head -n 10 || true
}

# tidy NUMBER FILE: prints clang-tidy's findings in the file, if any.
tidy() {
  local said status=0
  local -a rules=()
  if [[ $2 == build/lint/tests/* ]]; then rules=(--config-file=tests/.clang-tidy); fi
  said=$(clang-tidy -p build/lint --quiet "${rules[@]}" "$2" 2>/dev/null) || status=$?
  echo "[$1/$total] $2"
  if ((status)); then
    printf '%s\n' "${said:-clang-tidy ended with exit code $status}"
    return 1
  fi
}

lint() {
  local -a formatted
  mapfile -t formatted < <(git ls-files '*.cc' '*.h' '*.cu')
  step "format of ${#formatted[@]} files"
  run clang-format --dry-run --Werror "${formatted[@]}"
  step "generated sources"
  run cmake --build --preset lint --target outrider_proto
  # Checks what the build compiles except generated files, several sources at once.
  sed -n "s|^ *\"file\": \"$PWD/\(.*\)\".*|\1|p" build/lint/compile_commands.json | sort -u |
    awk '!/^build\// || /\/Unity\//' | nl -w 1 >build/lint/tidied
  total=$(wc -l <build/lint/tidied)
  step "clang-tidy and clang's warnings, thread safety among them, on $total files"
  export total
  export -f tidy
  run xargs -a build/lint/tidied -P "$jobs" -n 2 bash -c 'tidy "$@"' tidy
}

step "install"
if [[ $mode == asan || $mode == lint ]]; then scripts/setup.sh --lint; fi
if [[ $mode != lint ]]; then scripts/setup.sh --tests; fi
step "configure"
# With nvcc the CUDA backend is compiled for one architecture; its kernels run in tests on the host.
# The benchmarks, a minute of the build, are left out unless OUTRIDER_BENCH=ON asks for them.
cmake --preset "$mode" -D OUTRIDER_CUDA_ARCHITECTURES="${OUTRIDER_CUDA_ARCHITECTURES:-90}" \
  -D OUTRIDER_BENCH="${OUTRIDER_BENCH:-OFF}"
if [[ $mode == lint ]]; then
  lint
  exit 0
fi

step "build"
run cmake --build --preset "$mode"
step "tests"
log=build/$mode/tests.log
only=()
if ((quick)); then only=(-L '^unit$'); fi
# One more than cores: tests of processes wait for a good part of their time.
run ctest --preset "$mode" --output-log "$log" --no-tests=error -j "$((jobs + 1))" "${only[@]}" ||
  failed=1
print_slowest "$log"
exit "${failed:-0}"
