#!/usr/bin/env bash
# Checks what is about to be committed: the format of the staged C++ files, and tests/tidy on the staged tree.
# tools/pre-commit.sh --install makes git run it before each commit.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

if [ "${1:-}" = --install ]; then
  hook=$(git rev-parse --git-path hooks)/pre-commit
  if [ -e "$hook" ] && ! grep -q tools/pre-commit.sh "$hook"; then
    echo "hooks: $hook is there already and not ours; call tools/pre-commit.sh from it" >&2
    exit 1
  fi
  mkdir -p "$(dirname "$hook")"
  printf '#!/bin/sh\nexec tools/pre-commit.sh\n' >"$hook"
  chmod +x "$hook"
  echo "hooks: installed $hook"
  exit 0
fi

staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
git checkout-index --all --prefix="$staged/"
mapfile -t files < <(git diff --cached --name-only --diff-filter=d -- '*.h' '*.cpp')
if [ ${#files[@]} -gt 0 ]; then
  command -v clang-format-14 >/dev/null || { echo "hooks: clang-format-14 was not found; run make setup" >&2; exit 1; }
  (cd "$staged" && clang-format-14 --dry-run -Werror "${files[@]}") || {
    echo "hooks: format the files above with 'make format' and stage them again" >&2
    exit 1
  }
fi
python3 -B "$staged/tests/tidy/tidy.py" --root "$staged"
