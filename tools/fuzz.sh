#!/usr/bin/env bash
# Builds the libFuzzer programs and runs each for a while: tools/fuzz.sh SECONDS_EACH
# Before that, SEEDS simulated worlds (2,000 by default) are drawn and checked for violated invariants. A failure names its
# seed; PENSTOCK_FIRST_SEED=SEED PENSTOCK_SEEDS=1 build/quick/simulation_test --gtest_filter='RandomWorld.*' repeats it.
# New inputs stay under build/fuzz/found/; so does the input of a crash, which ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset quick --log-level=WARNING > /dev/null
ninja -C build/quick simulation_test
PENSTOCK_SEEDS=${SEEDS:-2000} build/quick/simulation_test --gtest_filter='RandomWorld.*'
echo "fuzz: ${SEEDS:-2000} random worlds hold their invariants"
tools/build.sh fuzz
for source in fuzz/*_fuzz.cpp; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .cpp)
  corpus=fuzz/corpus/${name%_fuzz}
  found=build/fuzz/found/$name
  mkdir -p "$found"
  echo "fuzz: $name for $1 s"
  "build/fuzz/fuzz/$name" -max_total_time="$1" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$name-" "$found" "$corpus"
done
