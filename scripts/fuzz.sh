#!/usr/bin/env bash
# Fuzzes with libFuzzer under the address and undefined-behaviour sanitizers; the last line is the
# verdict. Inputs with new coverage are kept in build/fuzz/found for the next run, failing inputs in
# build/fuzz/crashes.
#   scripts/fuzz.sh [SECONDS [TARGET...]]      60 seconds for each target of tests/fuzz
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/verdict.sh

seconds=${1:-60}
shift $(($# > 0))
if [[ ! $seconds =~ ^[0-9]+$ ]]; then
  echo "usage: scripts/fuzz.sh [SECONDS [TARGET...]]" >&2
  exit 2
fi
targets=("$@")
if ((${#targets[@]} == 0)); then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi

verdict_for "fuzz of ${#targets[@]} targets, $seconds s each"
scripts/setup.sh --lint
cmake --preset fuzz
run cmake --build --preset fuzz --target "${targets[@]/%/_fuzz}"

crashes=$PWD/build/fuzz/crashes
mkdir -p "$crashes"
begun=$crashes/.begun
broken=()
for target in "${targets[@]}"; do
  found=build/fuzz/found/$target
  program=build/fuzz/bin/${target}_fuzz
  mkdir -p "$found"
  printf '\n== %s, %d s\n' "$target" "$seconds"
  touch "$begun"
  # 10 seconds or 2 GB for 4 KB of input count as failures, too.
  if ! run "$program" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$crashes/$target-" -print_final_stats=1 \
    "$found" "tests/fuzz/corpus/$target"; then
    broken+=("$target")
    for input in "$crashes/$target"-*; do
      # Not those of earlier runs, nor the pattern itself.
      if [[ -e $input && ! $input -ot $begun ]]; then printf 'replay: %s %s\n' "$program" "$input"; fi
    done
  fi
done

if ((${#broken[@]} > 0)); then
  echo "broken: ${broken[*]}; once fixed, add the inputs to tests/fuzz/corpus"
  exit 1
fi
