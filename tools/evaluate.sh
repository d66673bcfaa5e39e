#!/usr/bin/env bash
# Writes docs/evaluation.md and its charts: tools/evaluate.sh PROGRAM [FLAG...]
# QUICK=1 replays only the busiest hours of the traces that last a day; ONLY=NAME,... some of it. The page of a part
# goes to build/evaluation.
set -euo pipefail
cd "$(dirname "$0")/.."
to=docs
if [[ -n ${QUICK:-}${ONLY:-} ]]; then to=build/evaluation; fi
"$1" --traces "${PENSTOCK_TRACES:-../shared/traces}" ${QUICK:+--quick} ${ONLY:+--only "$ONLY"} \
  --judged docs/judged-by-dynamo.md --out "$to/evaluation.md" --charts "$to/images" "${@:2}"
echo "Written: $to/evaluation.md and its charts in $to/images"
