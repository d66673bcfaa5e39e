#!/usr/bin/env bash
# Writes docs/fidelity.md: tools/fidelity.sh PROGRAM
# PARTS=silicon renews the comparison with measured engines only and keeps the rest of the page.
# The peer's replay runs on this machine where PyPI can be reached; else its figures are those of bench/dynamo-1.6.1.csv.
set -euo pipefail
cd "$(dirname "$0")/.."
traces=${PENSTOCK_TRACES:-../shared/traces}
engines=${PENSTOCK_ENGINE_DATA:-../shared/engine-data}
if [ "${PARTS:-all}" = silicon ]; then
  exec "$1" --keep-peer docs/fidelity.md --silicon "$engines/silicon_measurements.csv" --out docs/fidelity.md
fi
trace=$traces/mooncake_conversation.jsonl.xz
peer=$(dirname "$1")/dynamo.csv
if [ -n "${SKIP_PEER:-}" ] || ! python3 bench/dynamo_replay.py "$trace" --out "$peer"; then
  peer=bench/dynamo-1.6.1.csv
  echo "fidelity: the peer's figures are those of $peer"
fi
"$1" --trace "$trace" --peer "$peer" --silicon "$engines/silicon_measurements.csv" --out docs/fidelity.md
