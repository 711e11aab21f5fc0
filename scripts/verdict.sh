# Sourced by the scripts that end with a verdict. The last line is "NAME: PASSED", "NAME: FAILED" or
# "NAME: INTERRUPTED", and the exit status agrees (0, not 0, 128 + the signal). An interrupted script
# never passes.
#
#   verdict_for NAME [CLEANUP]   prints a verdict however the script ends, after the command CLEANUP
#   run COMMAND...               runs it so that a signal to this script ends it and all it has started
verdict_name= verdict_cleanup= verdict_job= verdict_signal= verdict_out=

verdict_for() {
  verdict_name=$1 verdict_cleanup=${2:-}
  exec {verdict_out}>&1
  trap 'verdict_end $?' EXIT
  trap 'verdict_signal=HUP; exit 129' HUP
  trap 'verdict_signal=INT; exit 130' INT
  trap 'verdict_signal=TERM; exit 143' TERM
}

verdict_end() {
  trap - EXIT
  trap '' HUP INT TERM
  exec >&"$verdict_out"  # the signal may have come in a command with its output in a file
  if [[ -n $verdict_job ]]; then
    kill -TERM -- "-$verdict_job" 2>/dev/null || true
    local tenths=300
    while ((tenths-- > 0)) && kill -0 -- "-$verdict_job" 2>/dev/null; do sleep 0.1; done
    kill -KILL -- "-$verdict_job" 2>/dev/null || true
    wait "$verdict_job" 2>/dev/null || true
  fi
  if [[ -n $verdict_cleanup ]]; then "$verdict_cleanup" "$1" || true; fi
  local word=FAILED
  if (($1 == 0)); then word=PASSED; fi
  if [[ -n $verdict_signal ]]; then word=INTERRUPTED; fi
  printf '\n%s: %s after %d s\n' "$verdict_name" "$word" "$SECONDS"
  exit "$1"
}

# A foreground command would delay the traps until it ends, and a signal to this process alone would
# not reach it. So it runs in the background in its own process group, which verdict_end ends.
run() {
  local code=0
  set -m
  "$@" </dev/null &
  verdict_job=$!
  set +m
  wait "$verdict_job" || code=$?
  verdict_job=
  return "$code"
}
