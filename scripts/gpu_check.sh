#!/usr/bin/env bash
# Checks and measures the CUDA backend on this machine's first device; the last line is the verdict.
#   scripts/gpu_check.sh [FOLDER]   FOLDER (build/gpu-results) gets the benchmarks' JSON and the logs
#   scripts/gpu_check.sh --without-device [FOLDER]   only what needs no device: the build, and the tests
#                                   over the kernels' emulation
# What only a device can tell comes first, the tests that any machine can run come last; nothing that
# fails keeps the rest from running. GPU_CHECK_SECONDS (570) is the time for all of it: what then
# still runs is ended, and the verdict is FAILED.
# Needs nvcc (on the PATH or in /usr/local/cuda/bin), cmake, ninja and the libraries of a build
# without gRPC; CMAKE_PREFIX_PATH may name where they are unpacked. Without nvcc or a device it says
# "skipped" and exits with 0. OUTRIDER_PYTHON (python3) names a Python; what is compared with PyTorch
# transformers is skipped with a word if it cannot import torch and transformers.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/verdict.sh
without_device=0
if [[ ${1:-} == --without-device ]]; then
  without_device=1
  shift
fi
out=${1:-build/gpu-results}
build=build/gpu
# Without a device nothing costly waits.
if ((without_device)); then seconds=3600; else seconds=${GPU_CHECK_SECONDS:-570}; fi

skip() { echo "gpu check: skipped: $1"; exit 0; }
step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

nvcc=$(command -v nvcc || true)
[[ -n $nvcc ]] || nvcc=/usr/local/cuda/bin/nvcc
[[ -x $nvcc ]] || skip "no nvcc"
if ((without_device)); then
  capability=90
  echo "device: none asked for; nothing that follows says how a device does"
else
  command -v nvidia-smi >/dev/null || skip "no CUDA device (no nvidia-smi)"
  device=$(nvidia-smi --query-gpu=name,compute_cap,memory.total,driver_version --format=csv,noheader -i 0 2>/dev/null) ||
    skip "no CUDA device"
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d ' .')
  echo "device: $device"
fi
mkdir -p "$out"
no_python=0
python=$(command -v "${OUTRIDER_PYTHON:-python3}") || no_python=1

failed=()
tell_failed() {
  if (($1 != 0)); then echo "failed: ${failed[*]:-$stage}"; fi
}
stage=configure
verdict_for "gpu check" tell_failed

# Seconds for something that may take $1: no more than are left.
room() {
  local left=$((seconds - SECONDS))
  ((left >= 1)) || left=1  # 0 would mean no limit
  echo $(($1 < left ? $1 : left))
}

# tell NAME EXIT_CODE: how what wrote NAME.log has ended.
tell() {
  local name=$1 rc=$2
  if ((rc != 0)); then
    failed+=("$name")
    grep -E 'Failure|FAILED|ERROR|rror:|CUDA,' -A 5 "$out/$name.log" | tail -n 40 || true
    echo "$name: FAILED with exit code $rc$( ((rc == 124 || rc == 137)) && echo ', out of time')"
    tail -n 3 "$out/$name.log"
  fi
  echo "$name: $(grep -E '^\[  (PASSED|SKIPPED|FAILED)' "$out/$name.log" | head -n 12 | tr '\n' ' ' || true)"
}

# run_check NAME LIMIT COMMAND...
run_check() {
  local name=$1 limit rc=0
  limit=$(room "$2")
  shift 2
  timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1 || rc=$?
  tell "$name" "$rc"
}

# run_together LIMIT TEST...: as many at a time as there are cores.
run_together() {
  local limit
  limit=$(room "$1")
  shift
  for test in "$@"; do rm -f "$out/$test.rc"; done
  # shellcheck disable=SC2016
  printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c '
    timeout -k 5 "$3" "$1/bin/$0" >"$2/$0.log" 2>&1
    echo $? >"$2/$0.rc"' {} "$build" "$out" "$limit" || true
  for test in "$@"; do tell "$test" "$(cat "$out/$test.rc" 2>/dev/null || echo 1)"; done
}

# build LOG TARGET...: what can be built is, whatever fails.
build() {
  local log=$1
  shift
  timeout -k 5 "$(room 3000)" cmake --build "$build" --target "$@" -- -k 0 >"$out/$log.log" 2>&1 && return
  failed+=("$log")
  grep -E 'error|FAILED' "$out/$log.log" | head -n 30 || true
}

# Some installations have nvcc without cublasLt's files, and those with Python's nvidia packages: links
# to these then stand in a folder of the build's.
borrow_cublas() {
  local toolkit folder
  toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  for folder in lib64 lib targets/x86_64-linux/lib; do
    if [[ -e $toolkit/$folder/libcublasLt.so ]]; then return; fi
  done
  folder=$("${python:-false}" -c 'import glob, os, sys
print(next((os.path.dirname(os.path.dirname(f)) for p in sys.path for f in
            glob.glob(os.path.join(p, "nvidia", "c*", "lib", "libcublasLt.so.13"))), ""))' 2>/dev/null || true)
  if [[ -z $folder ]]; then return; fi
  echo "cublasLt: from $folder"
  mkdir -p "$build/cublas/lib"
  ln -sf "$folder/lib/libcublasLt.so.13" "$build/cublas/lib/libcublasLt.so.13"
  ln -sf libcublasLt.so.13 "$build/cublas/lib/libcublasLt.so"
  export CMAKE_PREFIX_PATH=$PWD/$build/cublas${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  # Behind the toolkit's own headers.
  export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$folder/include
}

step "configure"
borrow_cublas
cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=RelWithDebInfo -D OUTRIDER_RPC=OFF \
  -D OUTRIDER_CUDA=ON -D OUTRIDER_CUDA_ARCHITECTURES="${capability}-real" \
  >"$out/configure.log" 2>&1 || { tail -n 30 "$out/configure.log"; exit 1; }

stage=build
host_tests=(cuda_emulator_test cuda_backend_test cuda_model_test cuda_propose_test device_picks_test
            device_rounds_test model_test math_test pair_run_test spec_test rules_test)
step "build"
# A program of an earlier run must not stand for one that no longer builds.
for program in gpu_bench pair_gpu_bench verify_gpu_bench cuda_parity_test conformance_test "${host_tests[@]}"; do
  rm -f "$build/bin/$program"
done
rm -f "$build/bin/outrider_cuda_backend.so"
build build outrider_cuda_backend cuda_parity_test conformance_test gpu_bench pair_gpu_bench \
  verify_gpu_bench
[[ -f $build/bin/outrider_cuda_backend.so ]] || exit 1

stage=tests
if ((!without_device)); then
  step "parity"
  run_check parity 150 "$build/bin/cuda_parity_test"
  if grep -q 'SKIPPED' "$out/parity.log" 2>/dev/null; then
    echo "parity: skipped though there is a device:"
    grep -m 1 'skipped (' "$out/parity.log" || true
    failed+=(parity-skipped)
  fi
  run_check conformance 150 "$build/bin/conformance_test" --gtest_filter='On/*/CudaDevice'
  if grep -q 'does not run here: skipped' "$out/conformance.log" 2>/dev/null; then
    failed+=(conformance-skipped)
  fi

  step "benchmark"
  # To the terminal as it goes: what was measured before something fails is not lost.
  timeout -k 5 "$(room 240)" "$build/bin/gpu_bench" --graphs both --json "$out/gpu_bench.json" 2>&1 |
    tee "$out/gpu_bench.log" || failed+=(benchmark)
  timeout -k 5 "$(room 60)" "$build/bin/verify_gpu_bench" --json "$out/verify_gpu_bench.json" 2>&1 |
    tee "$out/verify_gpu_bench.log" || failed+=(verification)
  for log in gpu_bench verify_gpu_bench; do
    if grep -q 'skipped' "$out/$log.log"; then failed+=("$log-skipped"); fi
  done
  ((no_python)) || "$python" -B tests/bench/gpu_goals.py "$out" || failed+=(goals)

  # Beside Hugging Face transformers where that Python imports them.
  step "pair"
  if ((no_python)); then
    echo "transformers: skipped: no ${OUTRIDER_PYTHON:-python3}"
    timeout -k 5 "$(room 90)" "$build/bin/pair_gpu_bench" --tokens 96 --json "$out/pair_gpu_bench.json" 2>&1 |
      tee "$out/pair_gpu_bench.log" || failed+=(pair)
  else
    timeout -k 5 "$(room 90)" "$python" -B tests/bench/pair_compare.py --build "$build" --tokens 96 --seconds 45 \
      --json "$out/pair_compare.json" 2>&1 | tee "$out/pair_compare.log" || failed+=(pair)
  fi

  if sanitizer=$(command -v compute-sanitizer); then
    step "compute-sanitizer"
    for tool in memcheck racecheck synccheck; do
      run_check "sanitizer-$tool" 100 "$sanitizer" --tool "$tool" --error-exitcode 9 \
        "$build/bin/cuda_parity_test" --gtest_filter='Families/CudaParity.*/Llama'
    done
  else
    echo "compute-sanitizer: not here"
  fi
fi

step "tests on the host"
if ((seconds - SECONDS < 90)); then
  echo "no time is left for them; any machine runs them (--without-device)"
  ((${#failed[@]} == 0))
  exit 0
fi
build build-of-host-tests "${host_tests[@]}"
run_together 250 "${host_tests[@]}"
if ((without_device)); then
  run_check conformance 200 "$build/bin/conformance_test" --gtest_filter='-*/CudaDevice'
  echo "no device: parity, verdicts, compute-sanitizer and benchmarks did not run"
fi

((${#failed[@]} == 0))
