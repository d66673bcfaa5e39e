#!/usr/bin/env bash
# Runs the benchmarks of a build: tools/bench.sh BUILD_DIR [PART_OF_NAME]
# The replay's speed stands beside that of the peer, measured right before on the same machine where PyPI can be
# reached, else beside the figures of bench/dynamo-1.6.1.csv.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
only=${2:-}
found=0

if [[ replay_speed == *"$only"* ]]; then
  found=1
  trace=${PENSTOCK_TRACES:-../shared/traces}/mooncake_conversation.jsonl.xz
  peer=$build/bench/dynamo.csv
  echo "bench: the peer's replay, a minute or two (SKIP_PEER=1 takes the recorded figures)"
  if [ -n "${SKIP_PEER:-}" ] || [ ! -f "$trace" ] || ! python3 bench/dynamo_replay.py "$trace" --out "$peer" --speed; then
    peer=bench/dynamo-1.6.1.csv
    echo "bench: the peer's figures are those of $peer, from another run"
  fi
  echo "bench: replay_speed"
  "$build/bench/replay_speed" "$peer"
fi
if [[ gateway_speed == *"$only"* ]]; then
  found=1
  echo "bench: gateway_speed, the gateway beside nginx and two routers, some minutes (SKIP_PEER=1 leaves the routers out)"
  bench/gateway/setup.sh "$build/bench/gateway-peers" ${SKIP_PEER:+--without-routers}
  python3 bench/gateway/gateway_speed.py "$build"
fi
for program in "$build"/bench/*_bench; do
  if [ ! -x "$program" ] || [[ $(basename "$program") != *"$only"* ]]; then continue; fi
  found=1
  echo "bench: $(basename "$program")"
  "$program" --benchmark_counters_tabular=true
done
[ $found = 1 ] || {
  echo "bench: no benchmark has '$only' in its name; there are: replay_speed gateway_speed $(cd bench && echo *_bench.cpp | sed 's/\.cpp//g')" >&2
  exit 1
}
