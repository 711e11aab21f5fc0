#!/usr/bin/env bash
# A verifier and a drafter on this machine: builds them, streams a story, then measures the same
# prompts with and without speculation. Ends with a verdict; leaves no process behind.
#   scripts/demo.sh [--prompts N] [--max-tokens N] [--device cpu|cuda:N]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/verdict.sh

num_prompts=6
max_tokens=200
device=cpu
while (($#)); do
  case "$1" in
    --prompts) num_prompts=$2; shift 2 ;;
    --max-tokens) max_tokens=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    *) echo "usage: scripts/demo.sh [--prompts N] [--max-tokens N] [--device cpu|cuda:N]" >&2; exit 2 ;;
  esac
done

logs=$(mktemp -d)
pids=()
clean_up() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  if (($1 != 0)) && [[ -z $verdict_signal ]]; then tail -n 5 "$logs"/*.log >&2 2>/dev/null || true; fi
  rm -rf "$logs"
}
verdict_for demo clean_up

fail() { echo "demo: $1" >&2; exit 1; }

# await SECONDS COMMAND...: until it succeeds; not longer than the services live.
await() {
  local until=$((SECONDS + $1)); shift
  until "$@"; do
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || fail "a service ended early"; done
    ((SECONDS < until)) || return 1
    sleep 0.1
  done
}

# number KEY < JSON
number() { sed -nE "s/.*\"$1\":([0-9.eE+-]+).*/\1/p"; }

echo "== Build"
scripts/setup.sh
cmake --preset cpu >"$logs/configure.log"
targets=(outrider outrider-verifier outrider-drafter)
[[ $device == cpu ]] || targets+=(outrider_cuda_backend)
run cmake --build --preset cpu --target "${targets[@]}"
bin=build/cpu/bin

echo
echo "== Start a verifier (the large model) and a drafter (the small one)"
verifier_flags=() drafter_flags=()
mapfile -t cores < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' |
  while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
if [[ $device != cpu ]]; then
  # Both on one device: caches of a fixed size, or the first would take what the second needs.
  verifier_flags=(--device "$device" --kv-tokens 65536)
  drafter_flags=("${verifier_flags[@]}")
elif ((${#cores[@]} >= 2)); then
  verifier_flags=(--cores "${cores[0]}")
  drafter_flags=(--cores "${cores[1]}")
else
  echo "only one core here: drafting and verifying take turns, so expect no gain"
fi

# Port 0: the system picks free ones; the log says which.
"$bin/outrider-verifier" --model models/default/target --listen 127.0.0.1:0 \
  --metrics 127.0.0.1:0 "${verifier_flags[@]}" 2>"$logs/verifier.log" &
pids+=($!)
await 60 grep -q ' serving ' "$logs/verifier.log" || fail "the verifier does not serve"
port=$(sed -nE 's/.* serving .* port=([0-9]+).*/\1/p' "$logs/verifier.log")
export OUTRIDER_VERIFIER=127.0.0.1:$port
"$bin/outrider-drafter" --model models/default/drafter --verifier "$OUTRIDER_VERIFIER" \
  --name demo --listen '' --metrics '' "${drafter_flags[@]}" 2>"$logs/drafter.log" &
pids+=($!)
attached() { "$bin/outrider" status --json 2>/dev/null | grep -q '"drafters":\[{'; }
await 60 attached || fail "the drafter did not attach"
"$bin/outrider" status

echo
echo "== A story, with drafts of four tokens whether they pay or not; accepted draft text is marked"
"$bin/outrider" generate --prompt "Once upon a time, there was a little girl named Lily." \
  --max-tokens "$max_tokens" --temperature 0.7 --draft-length 4 --show-drafts

echo
echo "== The same prompts without speculation, with four tokens a round, and as the controller chooses,"
echo "   $max_tokens tokens each, greedy"
head -n "$num_prompts" tests/bench/prompts.jsonl >"$logs/prompts.jsonl"
measure() {
  local prompt=$1
  shift
  sed -n "${prompt}p" "$logs/prompts.jsonl" >"$logs/prompt.jsonl"
  "$bin/outrider" bench --prompts "$logs/prompt.jsonl" --max-tokens "$max_tokens" --temperature 0 \
    --ignore-eos --json "$@"
}
# Warms caches up, and lets the controller see what things cost and bring: some seconds, as it risks little at a time.
echo "   (first the controller learns, from five times these texts)"
for ((i = 0; i < 5 * num_prompts; ++i)); do measure $((i % num_prompts + 1)) >/dev/null; done
tokens_on=0 seconds_on=0 tokens_off=0 seconds_off=0 tokens_four=0 seconds_four=0
for ((i = 1; i <= num_prompts; ++i)); do
  # Alternating, so that a change of the machine's speed touches all.
  off=$(measure "$i" --speculation off)
  four=$(measure "$i" --draft-length 4)
  on=$(measure "$i")
  printf 'prompt %d: %6.1f tokens/s without, %6.1f with four (%.2f accepted a round), %6.1f as chosen\n' \
    "$i" "$(number tokens_per_second <<<"$off")" "$(number tokens_per_second <<<"$four")" \
    "$(number accepted_per_round <<<"$four")" "$(number tokens_per_second <<<"$on")"
  tokens_on=$((tokens_on + $(number completion_tokens <<<"$on")))
  tokens_off=$((tokens_off + $(number completion_tokens <<<"$off")))
  tokens_four=$((tokens_four + $(number completion_tokens <<<"$four")))
  seconds_on=$(awk "BEGIN { print $seconds_on + $(number seconds <<<"$on") }")
  seconds_off=$(awk "BEGIN { print $seconds_off + $(number seconds <<<"$off") }")
  seconds_four=$(awk "BEGIN { print $seconds_four + $(number seconds <<<"$four") }")
done

echo
awk -v a="$tokens_on" -v b="$seconds_on" -v c="$tokens_off" -v d="$seconds_off" \
  -v e="$tokens_four" -v f="$seconds_four" 'BEGIN {
  on = a / b; off = c / d; four = e / f
  if (four < off)
    print "Always four tokens do not pay here: this model is so small that a core scores a draft of n tokens in " \
      "nearly n times the time of one (docs/benchmarks.md). The controller finds that out."
  printf "%.1f tokens/s with speculation, %.1f without: %.2f times as fast " \
    "(four tokens a round: %.2f)\n", on, off, on / off, four / off
}'
