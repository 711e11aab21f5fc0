#!/usr/bin/env bash
# Tests the tests: applies each seeded bug of mutants.txt to a copy of the sources and runs the test
# that must then fail. Fails if a mutant survives, does not apply or does not compile, or if a test
# fails without a mutant.
#   tests/exactness/mutants/run.sh              all of them (7 minutes of a core, cold)
#   tests/exactness/mutants/run.sh --subset     those marked in mutants.txt, as ctest runs them
#   tests/exactness/mutants/run.sh NAME...      these
#   tests/exactness/mutants/run.sh --check      only whether each of them still applies
# Works in build/mutants. The verifier's tests are built with OUTRIDER_RPC=ON, which defines their
# targets (no gRPC code is compiled); without mutants of the verifier it is OFF.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../../.." && pwd -P)
if [[ ${1:-} == --check ]]; then
  stale=0
  cd "$root"
  while IFS='|' read -r name _; do
    [[ $name == \#* || -z $name ]] && continue
    git apply --check "$here/${name%% *}.patch" || stale=1
  done <"$here/mutants.txt"
  exit "$stale"
fi
work=$root/build/mutants
src=$work/src
build=$work/build
jobs=$(nproc)
mkdir -p "$src"
# One run at a time, since runs share the copy.
exec 9>"$work/lock"
flock -n 9 || { echo "mutants: another run is under way in $work" >&2; exit 2; }
# The copy does not belong to the repository around it, in which git apply would look for paths.
export GIT_CEILING_DIRECTORIES=$work
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=1

names=() targets=() filters=() whats=()
trim() { local s=$1; s=${s#"${s%%[![:space:]]*}"}; printf '%s' "${s%"${s##*[![:space:]]}"}"; }
while IFS='|' read -r name target filter what; do
  [[ $name == \#* || -z $name ]] && continue
  name=$(trim "$name") what=$(trim "$what")
  if [[ ${1:-} == --subset ]]; then
    [[ $what == \** ]] || continue
  elif (($# > 0)); then
    [[ " $* " == *" $name "* ]] || continue
  fi
  names+=("$name") targets+=("$(trim "$target")") filters+=("$(trim "$filter")")
  whats+=("${what#\*}")
done <"$here/mutants.txt"
if ((${#names[@]} == 0)) || { (($# > 0)) && [[ $1 != --subset ]] && ((${#names[@]} != $#)); }; then
  echo "mutants: no such mutant in mutants.txt: $*" >&2
  exit 2
fi

# Only changed files are copied, with a new time, so that whatever an interrupted run left mutated
# is rebuilt.
cd "$root"
list=$work/files
find CMakeLists.txt cmake common verifier drafter client simulate proto tests -type f | sort >"$list"
(cd "$src" && find . -type f | sed 's|^\./||' | sort) | comm -23 - "$list" |
  while read -r file; do rm "$src/$file"; done
while read -r file; do
  cmp -s "$file" "$src/$file" && continue
  mkdir -p "$src/$(dirname "$file")"
  cp "$file" "$src/$file"
done <"$list"

rpc=OFF
for target in "${targets[@]}"; do [[ $target == verifier_* ]] && rpc=ON; done
log=$work/log
# Warnings are left to the other builds; a mutant may leave something unused.
cmake -S "$src" -B "$build" -G Ninja -D OUTRIDER_RPC=$rpc -D OUTRIDER_CUDA=OFF -D CMAKE_BUILD_TYPE=Debug \
  -D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=4 \
  -D CMAKE_CXX_FLAGS=-w -D CMAKE_CXX_FLAGS_DEBUG=-O1 >"$log" 2>&1 || { cat "$log"; exit 1; }

compile() { cmake --build "$build" -j "$jobs" --target "$@" >"$log" 2>&1; }
# A survivor must not hang the run, and a crash must not count as caught.
run_test() { timeout 300 "$build/bin/$1" --gtest_filter="$2" >"$log" 2>&1; }

echo "mutants: ${#names[@]} of them; first the tests without any"
start=$SECONDS
mapfile -t programs < <(printf '%s\n' "${targets[@]}" | sort -u)
compile "${programs[@]}" || { tail -n 40 "$log"; echo "mutants: the clean tree does not compile"; exit 1; }
while read -r target filter; do
  if ! run_test "$target" "$filter" || ! grep -qE '^\[==========\] [1-9][0-9]* tests? .* ran' "$log"; then
    tail -n 40 "$log"
    echo "mutants: $filter in $target does not pass without a mutant (or is not a test)"
    exit 1
  fi
done < <(for i in "${!names[@]}"; do echo "${targets[i]} ${filters[i]}"; done | sort -u)
echo "mutants: clean after $((SECONDS - start)) s"

# Sets `result` to the result of one mutant.
try_mutant() {
  local patch=$here/$1.patch target=$2 filter=$3 status=0
  (cd "$src" && git apply "$patch") >"$log" 2>&1 || { result="DOES NOT APPLY"; return; }
  if ! compile "$target"; then
    result="DOES NOT COMPILE"
  else
    run_test "$target" "$filter" || status=$?
    if ((status == 0)); then
      result=ALIVE
    elif grep -q '^\[  FAILED  \]' "$log"; then
      result=caught
    else
      result="ENDED BY $status"
    fi
  fi
  (cd "$src" && git apply -R "$patch")
}

table=$work/table
: >"$table"
bad=0
for i in "${!names[@]}"; do
  start=$SECONDS
  try_mutant "${names[i]}" "${targets[i]}" "${filters[i]}"
  if [[ $result != caught ]]; then
    bad=$((bad + 1))
    tail -n 15 "$log"
  fi
  printf '%-30s %-70s %-16s %4d s\n' "${names[i]}" "${filters[i]}" "$result" \
    $((SECONDS - start)) | tee -a "$table"
done

printf '\n%-30s %-70s %-16s %s\n' MUTANT "TEST THAT MUST FAIL" RESULT TIME
cat "$table"
if ((bad > 0)); then
  echo "mutants: FAILED, $bad of ${#names[@]} not caught, after $SECONDS s"
  exit 1
fi
echo "mutants: PASSED, all ${#names[@]} caught, after $SECONDS s"
