#!/usr/bin/env bash
# Checks and measures the CUDA backend on this machine's first device; the last line is the verdict.
#   scripts/gpu_check.sh [PART] [FOLDER]   FOLDER (build/gpu-results) gets the benchmarks' JSON and the logs.
#       PART build     the build, then parity with the CPU, conformance and the distributions of what is
#                      sampled (4 minutes)
#       PART speed     the device's rates, kernels and steps, verification, a pair of 8B and 1B beside
#                      PyTorch transformers (7 minutes)
#       PART sanitize  compute-sanitizer's memcheck, racecheck and synccheck over small models (7 minutes)
#       none of these  all three and the tests that any machine can run, each as far as the time goes
#   scripts/gpu_check.sh --without-device [FOLDER]   only what needs no device: the build, and the tests
#                      over the kernels' emulation
#   scripts/gpu_check.sh pack       Debian packages of the libraries that the build needs, into gpu_deps/
#                      (under 6 MB): a machine without a network unpacks them itself
#   scripts/gpu_check.sh prebuild   builds what the parts run, for OUTRIDER_CUDA_ARCHITECTURES (90-real),
#                      stripped, into gpu_prebuilt/ (under 15 MB): a machine that has it builds nothing
# Nothing that fails keeps the rest of a part from running, and a part needs no other to have passed. What
# still runs when a part's time is over (GPU_CHECK_SECONDS) is ended: in `sanitize` that is "not finished",
# elsewhere a failure.
# Needs nvcc (on the PATH or in /usr/local/cuda/bin), cmake, ninja or make, and the libraries of a build
# without gRPC: installed, in gpu_deps/, or where CMAKE_PREFIX_PATH and PKG_CONFIG_PATH say. Without nvcc
# or a device it says "skipped" and exits with 0. OUTRIDER_PYTHON (python3) names a Python; what is
# compared with PyTorch transformers is skipped with a word if it cannot import torch and transformers.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/verdict.sh
without_device=0 part=all
case "${1:-}" in
  --without-device) without_device=1; shift ;;
  build | speed | sanitize | pack | prebuild) part=$1; shift ;;
esac
out=${1:-build/gpu-results}
build=build/gpu
deps=gpu_deps prebuilt=gpu_prebuilt
case $part in
  build) seconds=${GPU_CHECK_SECONDS:-240} ;;
  speed | sanitize) seconds=${GPU_CHECK_SECONDS:-420} ;;
  *) seconds=${GPU_CHECK_SECONDS:-570} ;;
esac
# Without a device nothing costly waits.
if ((without_device)) || [[ $part == pre* ]]; then seconds=3600; fi
programs=(cuda_parity_test conformance_test gpu_bench pair_gpu_bench verify_gpu_bench)

# wants PART: whether it is to run.
wants() { [[ $part == all || $part == "$1" ]]; }

# The libraries of a build without gRPC, and what they need to run.
packages=(
  libhwy-dev libhwy1 nlohmann-json3-dev libpcre2-dev libpcre2-8-0 libpcre2-16-0 libpcre2-32-0
  libpcre2-posix3 libutf8proc-dev libutf8proc2 googletest libgtest-dev libgmock-dev
  pkgconf pkgconf-bin libpkgconf3
)
if [[ $part == pack ]]; then
  mkdir -p "$deps"
  rm -f "$deps"/*.deb
  (cd "$deps" && apt-get download -q "${packages[@]}")
  du -sh "$deps"
  exit 0
fi

skip() { echo "gpu check: skipped: $1"; exit 0; }
step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

nvcc=$(command -v nvcc || true)
[[ -n $nvcc ]] || nvcc=/usr/local/cuda/bin/nvcc
[[ -x $nvcc || -d $prebuilt ]] || skip "no nvcc"
if ((without_device)) || [[ $part == prebuild ]]; then
  capability=${OUTRIDER_CUDA_ARCHITECTURES:-90}
  capability=${capability%-real}
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
verdict_for "gpu check$([[ $part == all ]] || echo ", $part")" tell_failed

# Prints the seconds for a step that may take $1, at most those that are left.
room() {
  local left=$((seconds - SECONDS))
  ((left >= 1)) || left=1  # 0 would mean no limit
  echo $(($1 < left ? $1 : left))
}

# tell NAME EXIT_CODE: reports the result of the step that wrote NAME.log.
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
  run timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1 || rc=$?
  tell "$name" "$rc"
}

# run_together LIMIT TEST...: runs as many at once as there are cores.
run_together() {
  local limit
  limit=$(room "$1")
  shift
  for test in "$@"; do rm -f "$out/$test.rc"; done
  # shellcheck disable=SC2016
  # All in one process group, which `run` can end: no test starts others that would be left.
  run xargs -a <(printf '%s\n' "$@") -P "$(nproc)" -I{} bash -c '
    timeout --foreground -k 5 "$3" "$1/bin/$0" >"$2/$0.log" 2>&1
    echo $? >"$2/$0.rc"' {} "$build" "$out" "$limit" || true
  for test in "$@"; do tell "$test" "$(cat "$out/$test.rc" 2>/dev/null || echo 1)"; done
}

# build LOG TARGET...: builds everything that compiles, even if a target fails.
build() {
  local log=$1
  local -a native=(-k)  # make's
  if [[ -f $build/build.ninja ]]; then native=(-k 0); fi
  shift
  run timeout -k 5 "$(room 3000)" cmake --build "$build" --parallel "$(nproc)" --target "$@" -- "${native[@]}" \
    >"$out/$log.log" 2>&1 && return
  failed+=("$log")
  grep -E 'error|FAILED' "$out/$log.log" | head -n 30 || true
}

# Some installations have nvcc without cublasLt's files, but have these in Python's nvidia packages:
# then the build uses links to them in a folder of its own.
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
  # After the toolkit's own headers.
  export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$folder/include
}

# unpack_packages: those of gpu_deps/, for the build and for what it makes.
unpack_packages() {
  local root=$PWD/build/gpu-root deb
  ls "$deps"/*.deb >/dev/null 2>&1 || return 0
  echo "libraries: from $deps"
  rm -rf "$root"
  mkdir -p "$root"
  for deb in "$deps"/*.deb; do dpkg-deb -x "$deb" "$root"; done
  export PATH=$root/usr/bin:$PATH
  export CMAKE_PREFIX_PATH=$root/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export PKG_CONFIG_SYSROOT_DIR=$root
  export PKG_CONFIG_PATH=$root/usr/lib/x86_64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
  export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

configure() {
  local -a tool=()
  if command -v ninja >/dev/null; then tool=(-G Ninja); fi
  CUDACXX=$nvcc cmake -S . -B "$build" "${tool[@]}" -D CMAKE_BUILD_TYPE=RelWithDebInfo \
    -D CMAKE_UNITY_BUILD=ON -D OUTRIDER_RPC=OFF -D OUTRIDER_CUDA=ON \
    -D OUTRIDER_CUDA_ARCHITECTURES="${capability}-real" >"$out/configure.log" 2>&1 ||
    { tail -n 30 "$out/configure.log"; exit 1; }
}

host_tests=(cuda_emulator_test cuda_backend_test cuda_model_test cuda_propose_test device_picks_test
            device_rounds_test model_test math_test nccl_communicator_test pair_run_test spec_test
            rules_test)

unpack_packages
if [[ -d $prebuilt && $part != prebuild ]] && ((!without_device)); then
  echo "programs: from $prebuilt"
  mkdir -p "$build/bin"
  cp "$prebuilt"/* "$build/bin/"
  export LD_LIBRARY_PATH=$PWD/$build/bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  step "configure"
  borrow_cublas
  configure
  step "build"
  stage=build
  # A program of an earlier run must not stand for one that no longer builds.
  for program in "${programs[@]}" outrider_cuda_backend.so; do rm -f "$build/bin/$program"; done
  build build outrider_cuda_backend "${programs[@]}"
fi
[[ -f $build/bin/outrider_cuda_backend.so ]] || exit 1

if [[ $part == prebuild ]]; then
  mkdir -p "$prebuilt"
  for program in "${programs[@]}" outrider_cuda_backend.so; do
    strip -o "$prebuilt/$program" "$build/bin/$program"
  done
  # What they link that a bare machine lacks.
  ldd "$prebuilt"/* | sed -nE 's|.* => (/[^ ]*/lib(hwy|pcre2-8|utf8proc|gtest|gmock)[^ ]*) .*|\1|p' |
    sort -u | xargs -I{} cp -L {} "$prebuilt/"
  du -sh "$prebuilt"
  ((${#failed[@]} == 0))
  exit
fi

stage=tests

# Logits, verdicts, draws and graphs against the CPU's, and every op against double.
check_parity() {
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
}

# show NAME LIMIT COMMAND...: runs it with its output in NAME.log and, as it goes, on the terminal.
show() {
  local log=$out/$1.log limit rc=0 output tee
  limit=$(room "$2")
  shift 2
  exec {output}> >(tee "$log")
  tee=$!
  run timeout -k 5 "$limit" "$@" >&"$output" 2>&1 || rc=$?
  exec {output}>&-
  wait "$tee" || true
  return "$rc"
}

# measure NAME LIMIT COMMAND...: what was measured before something fails is not lost.
measure() {
  local name=$1
  show "$@" || failed+=("$name")
  if grep -q 'skipped' "$out/$name.log"; then failed+=("$name-skipped"); fi
}

measure_speed() {
  step "benchmark"
  measure gpu_bench 240 "$build/bin/gpu_bench" --graphs both --json "$out/gpu_bench.json"
  measure verify_gpu_bench 60 "$build/bin/verify_gpu_bench" --json "$out/verify_gpu_bench.json"
  ((no_python)) || "$python" -B tests/bench/gpu_goals.py "$out" || failed+=(goals)
  # Beside Hugging Face transformers where that Python imports them.
  step "pair"
  if ((no_python)); then
    echo "transformers: skipped: no ${OUTRIDER_PYTHON:-python3}"
    measure pair_gpu_bench 90 "$build/bin/pair_gpu_bench" --tokens 96 --json "$out/pair_gpu_bench.json"
  else
    show pair_compare 90 "$python" -B tests/bench/pair_compare.py --build "$build" --tokens 96 --seconds 45 \
      --json "$out/pair_compare.json" || failed+=(pair)
  fi
}

# One tool after another, as each wants the whole device. What time does not suffice for is not a failure.
sanitize() {
  local sanitizer tool rc limit
  if ! sanitizer=$(command -v compute-sanitizer); then
    echo "compute-sanitizer: skipped: not here"
    return
  fi
  for tool in memcheck racecheck synccheck; do
    step "$tool"
    rc=0
    limit=$(room "$((seconds / 3))")
    run timeout -k 5 "$limit" "$sanitizer" --tool "$tool" --error-exitcode 9 \
      "$build/bin/cuda_parity_test" --gtest_filter='Families/CudaParity.*/Llama' \
      >"$out/sanitizer-$tool.log" 2>&1 || rc=$?
    if ((rc == 124 || rc == 137)); then
      echo "sanitizer-$tool: not finished in $limit s; what it said so far:"
      tail -n 5 "$out/sanitizer-$tool.log"
      if grep -q 'ERROR SUMMARY: [1-9]\|Invalid\|hazard' "$out/sanitizer-$tool.log"; then
        failed+=("sanitizer-$tool")
      fi
    else
      tell "sanitizer-$tool" "$rc"
    fi
  done
}

test_on_host() {
  step "tests on the host"
  if ((seconds - SECONDS < 90)); then
    echo "no time is left for them; any machine runs them (--without-device)"
    return
  fi
  build build-of-host-tests "${host_tests[@]}"
  run_together 250 "${host_tests[@]}"
  if ((without_device)); then
    run_check conformance 200 "$build/bin/conformance_test" --gtest_filter='-*/CudaDevice'
    echo "no device: parity, verdicts, compute-sanitizer and benchmarks did not run"
  fi
}

if ((!without_device)); then
  if wants build; then check_parity; fi
  if wants speed; then measure_speed; fi
  if wants sanitize; then sanitize; fi
fi
if [[ $part == all ]] && [[ ! -d $prebuilt || $without_device == 1 ]]; then test_on_host; fi
((${#failed[@]} == 0))
