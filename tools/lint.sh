#!/usr/bin/env bash
# Checks tests/tidy and the format of every C++ file, then, for the files that changed since SINCE (default: HEAD, or the
# last commit when nothing is changed), that each header compiles alone and that clang-tidy's list (.clang-tidy) has no
# finding. ALL=1 checks every file. LINT_SECONDS bounds the time of the checks for each file: those that changed last come
# first, and the number of files that were not reached is printed. ADVISORY=1 prints findings of these checks and goes on.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in clang-format-14 clang-tidy-14 clang++-14; do
  command -v "$tool" >/dev/null || { echo "lint: $tool was not found; run make setup" >&2; exit 1; }
done

failed=0
python3 -B tests/tidy/tidy.py || failed=1

git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' |
  xargs -0 -r -P "$(nproc)" -n 50 sh -c 'for f; do [ -e "$f" ] && printf "%s\0" "$f"; done | xargs -0 -r clang-format-14 --dry-run -Werror' sh ||
  failed=1

since=${SINCE:-HEAD}
git rev-parse --verify --quiet "$since^{commit}" >/dev/null || {
  echo "lint: SINCE=$since is no commit" >&2
  exit 1
}
# Files that differ from a commit, the most recently committed last change first.
changed() {
  {
    git ls-files --others --exclude-standard -- '*.h' '*.cpp'
    git diff --name-only HEAD -- '*.h' '*.cpp'
    git log --format= --name-only "$1..HEAD" -- '*.h' '*.cpp'
    git diff --name-only "$1" -- '*.h' '*.cpp'
  } | awk '!seen[$0]++' | while read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done
}
if [ -n "${ALL:-}" ]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp')
else
  mapfile -t files < <(changed "$since")
  if [ ${#files[@]} = 0 ] && [ -z "${SINCE:-}" ] && git rev-parse --verify --quiet HEAD~1 >/dev/null; then
    mapfile -t files < <(changed HEAD~1)
  fi
fi

# One word for each check: a header to compile alone, or a source for clang-tidy, which sees a header through the source
# beside it and through whatever else of the list includes it.
checks=()
declare -A listed=()
for file in ${files[@]+"${files[@]}"}; do
  case $file in *.h) [[ $file != src/* ]] || checks+=("$file") ;; esac
  source=${file%.h}
  source=${source%.cpp}.cpp
  case $source in src/* | bench/* | fuzz/* | tests/*) ;; *) continue ;; esac
  if [ -e "$source" ] && [ -z "${listed[$source]:-}" ]; then
    listed[$source]=1
    checks+=("$source")
  fi
done

check_one() {
  [ "$(date +%s)" -lt "$LINT_DEADLINE" ] || { echo "$1" >>"$LINT_LEFT"; return 0; }
  case $1 in
    *.h)
      printf '#include "%s"\n' "${1#src/}" | "${CXX:-c++}" -std=c++20 -fsyntax-only -Isrc -isystem /usr/include/eigen3 \
        -x c++ - || { echo "$1:1: does not compile alone" >&2; return 1; }
      ;;
    *)
      clang-tidy-14 -p build/lint --quiet --warnings-as-errors='*' --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-Wno-error "$1" 2> >(grep -vE '^[0-9]+ warnings? generated' >&2)
      ;;
  esac
}
export -f check_one

if [ ${#checks[@]} -gt 0 ]; then
  # A tree configured for clang: the precompiled header of g++ is not for it. Nothing is built there.
  cmake --preset lint --log-level=WARNING >/dev/null
  LINT_DEADLINE=$(($(date +%s) + ${LINT_SECONDS:-86400}))
  LINT_LEFT=$(mktemp)
  trap 'rm -f "$LINT_LEFT"' EXIT
  export LINT_DEADLINE LINT_LEFT
  printf '%s\n' "${checks[@]}" | xargs -P "$(nproc)" -I{} bash -c 'check_one "$1"' bash {} || {
    if [ -n "${ADVISORY:-}" ]; then echo "lint: WARNING: the findings above do not fail this run"; else failed=1; fi
  }
  left=$(wc -l <"$LINT_LEFT")
  [ "$left" = 0 ] || echo "lint: WARNING: $left of ${#checks[@]} checks were not reached within ${LINT_SECONDS} s"
fi
if [ $failed != 0 ]; then
  echo "lint: failed" >&2
  exit 1
fi
echo "lint: every C++ file has the format; ${#files[@]} changed files were checked"
