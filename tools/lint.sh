#!/usr/bin/env bash
# Checks tests/tidy on the tree, then the format and clang-tidy's list (.clang-tidy) on the C++ files that changed since
# SINCE (default: HEAD, or the last commit when nothing is changed), or on all of them with ALL=1.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in clang-format-14 clang-tidy-14 clang++-14; do
  command -v "$tool" >/dev/null || { echo "lint: $tool was not found; run make setup" >&2; exit 1; }
done

failed=0
python3 -B tests/tidy/tidy.py || failed=1

since=${SINCE:-HEAD}
git rev-parse --verify --quiet "$since^{commit}" >/dev/null || {
  echo "lint: SINCE=$since is no commit" >&2
  exit 1
}
changed() {
  git diff --name-only --diff-filter=d "$1" -- '*.h' '*.cpp'
  git ls-files --others --exclude-standard -- '*.h' '*.cpp'
}
if [ -n "${ALL:-}" ]; then
  empty=$(git hash-object -t tree /dev/null)  # every file changed since there was none
  mapfile -t files < <(changed "$empty")
else
  mapfile -t files < <(changed "$since")
  if [ ${#files[@]} = 0 ] && [ -z "${SINCE:-}" ] && git rev-parse --verify --quiet HEAD~1 >/dev/null; then
    mapfile -t files < <(changed HEAD~1)
  fi
fi
if [ ${#files[@]} = 0 ]; then
  echo "lint: no C++ file changed"
  exit $failed
fi

clang-format-14 --dry-run -Werror "${files[@]}" || failed=1

# A header is checked through the source beside it, and through whatever else of the list includes it.
declare -A sources=()
for file in "${files[@]}"; do
  source=${file%.h}
  source=${source%.cpp}.cpp
  case $source in src/* | bench/* | fuzz/* | tests/*) [ ! -e "$source" ] || sources[$source]=1 ;; esac
done
if [ ${#sources[@]} -gt 0 ]; then
  # A tree configured for clang: the precompiled header of g++ is not for it. Nothing is built there.
  cmake --preset lint --log-level=WARNING >/dev/null
  printf '%s\n' "${!sources[@]}" | sort |
    xargs -P "$(nproc)" -n 1 clang-tidy-14 -p build/lint --quiet --warnings-as-errors='*' \
      --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error 2> >(grep -vE '^[0-9]+ warnings? generated' >&2) ||
    failed=1
fi
if [ $failed != 0 ]; then
  echo "lint: failed" >&2
  exit 1
fi
echo "lint: ${#files[@]} files are clean"
