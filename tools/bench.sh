#!/usr/bin/env bash
# Runs the benchmark programs of a build: tools/bench.sh BUILD_DIR [PART_OF_NAME]
set -euo pipefail
found=0
for program in "$1"/bench/*_bench; do
  if [ ! -x "$program" ] || [[ $(basename "$program") != *"${2:-}"* ]]; then continue; fi
  found=1
  echo "bench: $(basename "$program")"
  "$program" --benchmark_counters_tabular=true
done
[ $found = 1 ] || {
  echo "bench: no benchmark named *${2:-}*_bench under $1/bench" >&2
  exit 1
}
