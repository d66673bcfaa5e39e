#!/usr/bin/env bash
# Checks the format and clang-tidy's list (.clang-tidy) on the C++ files that changed since SINCE (default: HEAD, or the
# last commit when nothing is changed), or on all of them with ALL=1.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=(clang-format-14 clang-tidy-14 clang++-14)
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || { echo "lint: $tool was not found; run make setup" >&2; exit 1; }
done

changed() {
  git diff --name-only --diff-filter=d "$1" -- '*.h' '*.cpp'
  git ls-files --others --exclude-standard -- '*.h' '*.cpp'
}
if [ -n "${ALL:-}" ]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp')
else
  mapfile -t files < <(changed "${SINCE:-HEAD}")
  if [ ${#files[@]} = 0 ] && [ -z "${SINCE:-}" ]; then mapfile -t files < <(changed HEAD~1); fi
fi
if [ ${#files[@]} = 0 ]; then
  echo "lint: nothing changed"
  exit 0
fi

failed=0
clang-format-14 --dry-run -Werror "${files[@]}" || failed=1

# A header is checked through the source beside it, and through whatever else of the list includes it.
declare -A sources=()
for file in "${files[@]}"; do
  source=${file%.h}
  source=${source%.cpp}.cpp
  case $source in src/* | bench/* | fuzz/*) [ ! -e "$source" ] || sources[$source]=1 ;; esac
done
if [ ${#sources[@]} -gt 0 ]; then
  # A tree configured for clang: the precompiled header of g++ is not for it. Nothing is built there.
  cmake --preset lint --log-level=WARNING >/dev/null
  printf '%s\n' "${!sources[@]}" | sort |
    xargs -P "$(nproc)" -n 1 clang-tidy-14 -p build/lint --quiet --warnings-as-errors='*' \
      --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error 2> >(grep -vE '^[0-9]+ warnings? generated' >&2) ||
    failed=1
fi
[ $failed = 0 ] && echo "lint: ${#files[@]} files are clean" || { echo "lint: failed"; exit 1; }
