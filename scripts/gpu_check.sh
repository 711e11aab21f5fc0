#!/usr/bin/env bash
# Checks and measures the CUDA backend on this machine's first device; the last line is the verdict.
#   scripts/gpu_check.sh [FOLDER]   FOLDER (build/gpu-results) gets the benchmarks' JSON and the logs
#   scripts/gpu_check.sh --without-device [FOLDER]   only what needs no device: the build, and the tests
#                                   over the kernels' emulation
# Needs nvcc (on the PATH or in /usr/local/cuda/bin), cmake, ninja and the libraries of a build
# without gRPC; CMAKE_PREFIX_PATH may name where they are unpacked. Without nvcc or a device it says
# "skipped" and exits with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
without_device=0
if [[ ${1:-} == --without-device ]]; then
  without_device=1
  shift
fi
out=${1:-build/gpu-results}
build=build/gpu

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

verdict() {
  if (($1 == 0)); then
    printf '\ngpu check: PASSED after %d s\n' "$SECONDS"
  else
    printf '\ngpu check: FAILED after %d s (%s)\n' "$SECONDS" "$stage"
  fi
}
stage=configure
trap 'verdict $?' EXIT

step "configure"
cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=RelWithDebInfo -D OUTRIDER_RPC=OFF \
  -D OUTRIDER_CUDA=ON -D OUTRIDER_CUDA_ARCHITECTURES="${capability}-real" \
  >"$out/configure.log" 2>&1 || { tail -n 30 "$out/configure.log"; exit 1; }

stage=build
step "build"
tests=(conformance_test cuda_backend_test cuda_model_test cuda_parity_test cuda_propose_test
       device_picks_test device_rules_test model_test math_test spec_test rules_test)
cmake --build "$build" --target outrider_cuda_backend gpu_bench verify_gpu_bench "${tests[@]}" \
  >"$out/build.log" 2>&1 || { grep -E 'error|FAILED' "$out/build.log" | head -n 30; exit 1; }

# Every test runs before the verdict: one failure should not hide the next.
failed=()
run() {
  local name=$1
  shift
  if ! timeout 200 "$@" >"$out/$name.log" 2>&1; then
    failed+=("$name")
    grep -E 'Failure|FAILED|ERROR' -A 5 "$out/$name.log" | tail -n 40 || true
  fi
  echo "$name: $(grep -E '^\[  (PASSED|SKIPPED|FAILED)' "$out/$name.log" | tr '\n' ' ' || true)"
}
stage=tests
step "parity and tests"
if ((!without_device)); then
  run parity "$build/bin/cuda_parity_test"
  run conformance "$build/bin/conformance_test" --gtest_filter='On/*/CudaDevice'
fi
for test in "${tests[@]}"; do
  case $test in cuda_parity_test | conformance_test) ;; *) run "$test" "$build/bin/$test" ;; esac
done
if ((without_device)); then
  stage="${failed[*]:-}"
  ((${#failed[@]} == 0))
  echo "no device: parity, verdicts, compute-sanitizer and benchmarks did not run"
  exit 0
fi
if grep -q 'SKIPPED' "$out/parity.log"; then
  echo "parity: skipped though there is a device:"
  grep -m 1 'skipped (' "$out/parity.log" || true
  failed+=(parity-skipped)
fi

if sanitizer=$(command -v compute-sanitizer); then
  step "compute-sanitizer"
  for tool in memcheck racecheck; do
    run "sanitizer-$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 \
      "$build/bin/cuda_parity_test" --gtest_filter='*Llama_*:Families/CudaParity.*/Llama'
  done
else
  echo "compute-sanitizer: not here"
fi

stage=benchmark
step "benchmark"
timeout 300 "$build/bin/gpu_bench" --graphs both --json "$out/gpu_bench.json" | tee "$out/gpu_bench.log" ||
  failed+=(benchmark)
timeout 60 "$build/bin/verify_gpu_bench" --json "$out/verify_gpu_bench.json" |
  tee "$out/verify_gpu_bench.log" || failed+=(verification)

stage="${failed[*]:-}"
((${#failed[@]} == 0))
