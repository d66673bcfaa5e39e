#!/usr/bin/env bash
# Builds and tests presets in turn, then sums them up: tools/test.sh PRESET[:LABEL]...
# With a label, only the tests that carry it run; the target tests_LABEL is what they need, and a preset without any such
# test is not even built. While the tests of a preset run, which mostly wait, the next one is built with the cores that they
# leave. Tests that failed run once more, one at a time: those that pass then failed beside other tests only, and are named
# as such. The last lines name every test that failed, with the end of its output. Exits 1 if any did.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
# Most tests with whole programs wait more than they compute, unless a sanitizer slows them.
release_jobs=$((jobs + (jobs + 1) / 2))
passed=0
failed=0
names=     # Tests that failed twice, as "preset name".
unsteady=  # Tests that passed only alone.

# Counts "97% tests passed, 3 tests failed out of 120", ctest's closing line. Without one, the run itself failed.
count() {
  local summary='s/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' bad=1 all=1
  read -r bad all < <(sed -nE "$summary" "$1" | tail -n 1) || true
  failed=$((failed + ${bad:-1}))
  passed=$((passed + ${all:-1} - ${bad:-1}))
}

# Prints the names of the tests that failed, or did not run, from ctest's closing list.
failed_names() { sed -nE 's/^[[:space:]]*[0-9]+ - ([^ ]+) \((Failed|Timeout|Not Run|SEGFAULT|ILLEGAL|Subprocess aborted|[A-Za-z]+ fault|Bus error).*$/\1/p' "$1"; }

# Whether an item is to be tested: the preset that was built last knows a test with its label. Cheaper than building it to find out.
is_needed() { [[ $1 != *:* ]] || [ -z "$2" ] || ctest --test-dir "build/$2" -L "^${1#*:}\$" -N 2>/dev/null | grep -qE '^Total Tests: [1-9]'; }

# Builds the preset of an item, with only what its label needs.
build() {
  local targets=()
  [[ $1 != *:* ]] || targets=("tests_${1#*:}")
  tools/build.sh "${1%%:*}" "${targets[@]}"
}
export -f build

# Starts to build an item with the lowest priority.
beside=
build_beside() {
  setsid bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec chrt --idle 0 bash -c "build $1"' build "$1" >"build/${1%%:*}.log" 2>&1 &
  beside=$!
}
trap '[ -z "$beside" ] || kill -TERM -- "-$beside" 2>/dev/null' EXIT

last=
items=("$@")
for index in "${!items[@]}"; do
  item=${items[$index]}
  next=${items[$((index + 1))]:-}
  preset=${item%%:*}
  if ! is_needed "$item" "$last"; then
    echo "test: no test has the label ${item#*:}; preset $preset is not needed"
    continue
  fi
  select=()
  [[ $item != *:* ]] || select=(-L "^${item#*:}\$")
  echo "test: preset $preset"
  [ -z "$beside" ] || wait "$beside"
  beside=
  if ! build "$item"; then
    echo "test: preset $preset does not build"
    echo "$passed passed, $((failed + 1)) failed"
    exit 1
  fi
  if [ -n "$next" ] && is_needed "$next" "$preset"; then build_beside "$next"; fi
  log=build/$preset/ctest.log
  at_a_time=$jobs
  [ "$preset" != release ] || at_a_time=$release_jobs
  ctest --preset "$preset" -j "$at_a_time" --no-tests=error "${select[@]}" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  before=$failed
  count "$log"
  # ctest prints no output of a test that was skipped; its own log has the cause.
  for name in $(sed -nE 's/^[[:space:]]*[0-9]+ - ([^ ]+) \(Skipped\)$/\1/p' "$log"); do
    cause=$(sed -nE "/ Test: ${name//./\\.}\$/,/^Test time/s/^(SKIPPED|NOT CHECKED): //p" "build/$preset/Testing/Temporary/LastTest.log" 2>/dev/null | head -n 1)
    echo "test: skipped: $name${cause:+: $cause}"
  done
  if [ "$failed" -gt "$before" ] && [ -n "$(failed_names "$log")" ]; then
    again=build/$preset/ctest-again.log
    echo "test: once more, one at a time: $(failed_names "$log" | tr '\n' ' ')"
    ctest --preset "$preset" -j 1 --rerun-failed 2>&1 | tee "$again"
    stable=$(comm -23 <(failed_names "$log" | sort) <(failed_names "$again" | sort))
    for name in $stable; do
      unsteady+="$preset $name"$'\n'
      failed=$((failed - 1))
      passed=$((passed + 1))
    done
    for name in $(failed_names "$again"); do names+="$preset $name"$'\n'; done
    [ "$failed" -gt "$before" ] || status=0
  fi
  [ "$status" = 0 ] || [ "$failed" -gt "$before" ] || failed=$((failed + 1))
  last=$preset
done
printf '%s' "$names" | while read -r preset name; do
  echo "test: failed twice: $name (preset $preset); the end of its output:"
  sed -nE "/ Test +#[0-9]+: ${name//./\\.} \\./,/^[[:space:]]+Start|^[0-9]+% tests passed/p" "build/$preset/ctest-again.log" | tail -n 25
done
printf '%s' "$unsteady" | sed 's/^\([^ ]*\) \(.*\)$/test: failed beside other tests, passed alone: \2 (preset \1)/'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
