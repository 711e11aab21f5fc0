#!/usr/bin/env bash
# Chaos test: a verifier and three drafters under load. Drafters are killed, stopped, delayed,
# partitioned or replaced by late ones at random. Prints the outcome of each kind of fault; the last
# line is the verdict. The 99th percentile of the waits between two chunks must stay within 2 s, the
# additional wait of seeded requests.
#   scripts/chaos.sh [SECONDS [SEED]]      600 seconds
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/verdict.sh

export OUTRIDER_CHAOS_SECONDS=${1:-600} OUTRIDER_CHAOS_SEED=${2:-1} OUTRIDER_CHAOS_MAX_WAIT_MS=2000
if [[ ! $OUTRIDER_CHAOS_SECONDS =~ ^[0-9]+$ || ! $OUTRIDER_CHAOS_SEED =~ ^[0-9]+$ ]]; then
  echo "usage: scripts/chaos.sh [SECONDS [SEED]]" >&2
  exit 2
fi

verdict_for "chaos of $OUTRIDER_CHAOS_SECONDS s, seed $OUTRIDER_CHAOS_SEED"
cmake --preset cpu
run cmake --build --preset cpu --target chaos_test
run build/cpu/bin/chaos_test
