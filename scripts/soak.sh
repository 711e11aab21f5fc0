#!/usr/bin/env bash
# Soak test: a verifier and two drafters under mixed load, with cancelled requests. The memory of each
# process and the KV pages must not grow: the median of the last quarter may be at most 5 % and 8 MiB
# (10 % for pages) above that of the second quarter. The last line is the verdict.
#   scripts/soak.sh [SECONDS [SEED]]      600 seconds
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/verdict.sh

export OUTRIDER_SOAK_SECONDS=${1:-600} OUTRIDER_SOAK_SEED=${2:-1}
if [[ ! $OUTRIDER_SOAK_SECONDS =~ ^[0-9]+$ || ! $OUTRIDER_SOAK_SEED =~ ^[0-9]+$ ]]; then
  echo "usage: scripts/soak.sh [SECONDS [SEED]]" >&2
  exit 2
fi

verdict_for "soak of $OUTRIDER_SOAK_SECONDS s, seed $OUTRIDER_SOAK_SEED"
cmake --preset cpu
run cmake --build --preset cpu --target soak_test
run build/cpu/bin/soak_test
