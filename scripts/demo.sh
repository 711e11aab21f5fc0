#!/usr/bin/env bash
# Demonstrates the default pair on this machine: builds the programs, streams three texts with their
# drafts marked, measures held-out prompts of five domains with and without speculation, and kills
# the drafter in the middle of a stream. Ends with a verdict; leaves no process running.
#   scripts/demo.sh [--prompts N] [--repetitions N] [--device cpu|cuda:N]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/verdict.sh

usage="usage: scripts/demo.sh [--prompts N] [--repetitions N] [--device cpu|cuda:N]"
prompts=4 # of a domain
repetitions=3
device=cpu
while (($#)); do
  (($# > 1)) || { echo "$usage" >&2; exit 2; } # every flag has a value
  case "$1" in
    --prompts) prompts=$2; shift 2 ;;
    --repetitions) repetitions=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
done

[[ $prompts =~ ^[1-8]$ ]] || { echo "demo: --prompts is 1 to 8" >&2; exit 2; }
[[ $repetitions =~ ^[1-9][0-9]?$ ]] || { echo "demo: --repetitions is 1 to 99" >&2; exit 2; }

pair=models/default
logs=$(mktemp -d)
pids=()
stream=
clean_up() {
  if [[ -n $stream ]]; then kill "$stream" 2>/dev/null || true; fi
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  if (($1 != 0)) && [[ -z $verdict_signal ]]; then tail -n 5 "$logs"/*.log >&2 2>/dev/null || true; fi
  rm -rf "$logs"
}
verdict_for demo clean_up

fail() { echo "demo: $1" >&2; exit 1; }

# await SECONDS COMMAND...: repeats it until it succeeds; fails if a service ends.
await() {
  local until=$((SECONDS + $1)); shift
  until "$@"; do
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || fail "a service ended early"; done
    ((SECONDS < until)) || return 1
    sleep 0.1
  done
}

# The load before anything of this script runs. The mean of a minute: what runs at once.
load() { cut -d ' ' -f 1 /proc/loadavg; }
load_before=$(load)

echo "== Build (the first time takes some minutes, most of it C++ that includes gRPC's headers)"
scripts/setup.sh --programs
cmake --preset cpu >"$logs/configure.log"
targets=(outrider outrider-verifier outrider-drafter)
[[ $device == cpu ]] || targets+=(outrider_cuda_backend)
run cmake --build --preset cpu --target "${targets[@]}"
bin=build/cpu/bin

verifier_flags=() drafter_flags=()
mapfile -t cores < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' |
  while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
if [[ $device != cpu ]]; then
  # All share one device, so caches have a fixed size; the first one would take all memory.
  verifier_flags=(--device "$device" --kv-tokens 65536)
  drafter_flags=("${verifier_flags[@]}")
elif ((${#cores[@]} >= 2)); then
  verifier_flags=(--cores "${cores[0]}")
  drafter_flags=(--cores "${cores[1]}")
fi

# start_verifier NAME FLAG...: sets `address`.
start_verifier() {
  local name=$1; shift
  "$bin/outrider-verifier" --model $pair/target --listen 127.0.0.1:0 --metrics 127.0.0.1:0 \
    "${verifier_flags[@]}" "$@" 2>"$logs/$name.log" &
  pids+=($!)
  await 60 grep -qs ' serving ' "$logs/$name.log" || fail "the verifier does not serve"
  address=127.0.0.1:$(sed -nE 's/.* serving .* port=([0-9]+).*/\1/p' "$logs/$name.log")
}

attached() { "$bin/outrider" status --verifier "$1" --json 2>/dev/null | grep -q '"drafters":\[{'; }
start_drafter() {
  "$bin/outrider-drafter" --model $pair/drafter --verifier "$verifier,$alone" --name demo \
    --listen '' --metrics '' "${drafter_flags[@]}" 2>>"$logs/drafter.log" &
  drafter=$!
  pids+=("$drafter")
  await 60 attached "$verifier" && await 60 attached "$alone" || fail "the drafter did not attach"
}

echo
echo "== Start a verifier (the large model) and a drafter (the small one)"
start_verifier verifier
verifier=$address
# For one column of the table: drafts from the drafter only, without prompt lookup and suffix drafts.
start_verifier alone --lookup-tokens 0 --suffix-tokens 0
alone=$address
start_drafter
export OUTRIDER_VERIFIER=$verifier
"$bin/outrider" status
if [[ $device == cpu ]] && ((${#cores[@]} < 2)); then
  echo "only one core here: drafting and verifying take turns, so expect little"
fi

# The prompts of a domain: the first ones are measured, the last two only warm up.
domain_prompts() { grep "\"domain\": \"$1\"" $pair/prompts.jsonl >"$logs/prompts"; }
prompt_text() {
  domain_prompts "$1"
  head -n 1 "$logs/prompts" | sed -E 's/.*"prompt": "(.*)", "max_tokens".*/\1/'
}
domains=(stories maths functions records edits)

echo
echo "== Three texts at temperature 0.8, four tokens drafted at a time; what was drafted and accepted is marked"
for domain in stories maths functions; do
  printf '%b' "$(prompt_text $domain | sed 's/\\"/"/g')" >"$logs/prompt.txt"
  echo
  cat "$logs/prompt.txt"
  "$bin/outrider" generate --prompt-file "$logs/prompt.txt" --max-tokens 200 --temperature 0.8 \
    --seed 7 --draft-length 4 --show-drafts
done

# The settings that take turns: a name, and the flags of `outrider bench`.
ways=(plain draft-2 draft-4 draft-6 chosen alone)
flags_of() {
  case $1 in
    plain) echo --speculation off ;;
    draft-*) echo --draft-length "${1#draft-}" ;;
    chosen) ;;
    alone) echo --verifier "$alone" ;;
  esac
}
# measure PROMPTS WAY: leaves one line of JSON in $logs/figures.
measure() {
  # shellcheck disable=SC2046 # several words
  "$bin/outrider" bench --prompts "$1" --temperature 0.8 --json $(flags_of "$2") \
    >"$logs/figures" || fail "a request failed"
}

echo
echo "== The same held-out prompts without speculation, with fixed drafts, and as the controller chooses;"
echo "   temperature 0.8, one request at a time, each text to its end"
for domain in "${domains[@]}"; do
  domain_prompts "$domain"
  head -n "$prompts" "$logs/prompts" >"$logs/$domain.jsonl"
  tail -n 2 "$logs/prompts" >>"$logs/warm-up.jsonl"
done
echo "   (two other prompts of each domain first, for caches and the controller)"
for way in "${ways[@]}"; do measure "$logs/warm-up.jsonl" "$way"; done
for ((turn = 1; turn <= repetitions; ++turn)); do
  for domain in "${domains[@]}"; do
    for way in "${ways[@]}"; do
      measure "$logs/$domain.jsonl" "$way"
      printf '%s %s %s %s\n' "$domain" "$way" "$turn" "$(cat "$logs/figures")" >>"$logs/measured"
    done
  done
done
load_after=$(load)

# Speeds are of decoding, after the first token; the best fixed length is chosen for each domain.
awk -v domains="${domains[*]}" -v means="$logs/means" '
  function number(key) {
    if (!match($0, "\"" key "\":[0-9.e+-]+")) return 0
    return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
  }
  function speed(domain, way) { return tokens[domain, way] / milliseconds[domain, way] * 1000 }
  function share(domain, proposer) {
    return sprintf("%.0f %%", 100 * rounds[domain, proposer] / rounds[domain, "all"])
  }
  {
    sub(/"ttft_ms":{[^}]*}/, "")  # leaves one mean, that of itl_ms
    tokens[$1, $2] += number("completion_tokens")
    milliseconds[$1, $2] += number("completion_tokens") * number("mean")
    accepted[$1, $2] += number("accepted_tokens")
    all[$1, $2] += number("rounds")
    turns = $3
    turn_tokens[$1, $2, $3] = number("completion_tokens")
    turn_ms[$1, $2, $3] = number("completion_tokens") * number("mean")
    if ($2 != "chosen") next
    rounds[$1, "drafter"] += number("draft")
    rounds[$1, "text"] += number("lookup") + number("suffix")
    rounds[$1, "nobody"] += number("plain")
    rounds[$1, "all"] += number("draft") + number("lookup") + number("suffix") + number("plain")
  }
  END {
    print "             tokens/s  best fixed  accepted   as      drafter  rounds as chosen, drafted by"
    print "  domain     plain     length      a round    chosen  alone    drafter  its text  nobody"
    count = split(domains, list, " ")
    split("draft-2 draft-4 draft-6", lengths, " ")
    for (i = 1; i <= count; ++i) {
      d = list[i]
      best = lengths[1]
      for (n in lengths) if (speed(d, lengths[n]) > speed(d, best)) best = lengths[n]
      plain = speed(d, "plain")
      fixed = speed(d, best) / plain
      chosen = speed(d, "chosen") / plain
      alone = speed(d, "alone") / plain
      printf "  %-10s %-9.0f %s: x %-7.2f %-10.2f x %-5.2f x %-6.2f %-8s %-9s %s\n", d, plain,
        substr(best, 7), fixed, accepted[d, best] / all[d, best], chosen, alone,
        share(d, "drafter"), share(d, "text"), share(d, "nobody")
      sum_fixed += fixed; sum_chosen += chosen; sum_alone += alone
    }
    printf "  %-20s    x %-18.2f x %-5.2f x %.2f\n", "mean", sum_fixed / count, sum_chosen / count, sum_alone / count
    for (t = 1; t <= turns; ++t) {
      sum = 0
      for (i = 1; i <= count; ++i) {
        plain = turn_tokens[list[i], "plain", t] / turn_ms[list[i], "plain", t]
        sum += turn_tokens[list[i], "chosen", t] / turn_ms[list[i], "chosen", t] / plain
      }
      if (t == 1 || sum < least) least = sum
      if (t == 1 || sum > most) most = sum
    }
    print "  drafter alone: as chosen, but by a verifier without prompt lookup and suffix drafts"
    printf "  the mean as chosen over %d repetitions: x %.2f to x %.2f\n", turns, least / count, most / count
    printf "%.2f %.2f\n", sum_chosen / count, sum_alone / count >means
  }' "$logs/measured"
# Verifier and drafter load a core each.
echo "  load of this machine's ${#cores[@]} cores: $load_before before, $load_after at the end (about 2 are this demo's)"
busy() { awk -v load="$1" -v most="$2" 'BEGIN { exit !(load > most) }'; }
if busy "$load_before" ${#cores[@]} || busy "$load_after" $((${#cores[@]} + 2)); then
  echo "  this machine is busy: figures mean little"
fi

echo
echo "== The drafter is killed in the middle of a stream"
"$bin/outrider" generate --prompt "Once upon a time" --max-tokens 480 --ignore-eos --temperature 0.8 \
  --draft-length 4 >"$logs/stream.txt" 2>"$logs/stream.log" &
stream=$!
until [[ -s $logs/stream.txt ]]; do # no pause: the whole stream may take less than one
  kill -0 "$stream" 2>/dev/null || fail "nothing was streamed"
done
kill -9 "$drafter"
{ wait "$drafter" || true; } 2>/dev/null
at=$(wc -c <"$logs/stream.txt")
unset 'pids[-1]'
wait "$stream" || fail "the stream broke off"
stream=
end=$(wc -c <"$logs/stream.txt")
if ((end > at)); then
  echo "killed after $at bytes of text; the stream went on without it to its end, at $end"
else
  echo "the stream of $end bytes was over before the drafter was gone"
fi
echo "a new drafter attaches:"
start_drafter
"$bin/outrider" status | sed -n '/drafter/Ip'

echo
read -r chosen alone_mean <"$logs/means"
echo "As the controller chooses, this machine decodes $chosen times as fast as without speculation, $alone_mean times with"
echo "drafts of the drafter alone (means over ${#domains[@]} domains, $prompts prompts each, temperature 0.8). The text's"
echo "distribution is the same either way: docs/exactness.md."
