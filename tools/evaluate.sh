#!/usr/bin/env bash
# Writes docs/evaluation.md and its charts: tools/evaluate.sh PROGRAM [FLAG...]
# QUICK=1 replays only the busiest hours of the traces that last a day; ONLY=NAME,... some of it.
set -euo pipefail
cd "$(dirname "$0")/.."
"$1" --traces "${PENSTOCK_TRACES:-../shared/traces}" ${QUICK:+--quick} ${ONLY:+--only "$ONLY"} \
  --out docs/evaluation.md --charts docs/images "${@:2}"
