// `penstock completion`: scripts for shells, which request commands and flags from the program that is installed.
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kBash = R"sh(# Completion of penstock for bash, written by `penstock completion bash`.
_penstock() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} flags name value help
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$("$1" --complete 2>/dev/null | cut -f 1) --help --version" -- "$current")
    return
  fi
  flags=$("$1" "${COMP_WORDS[1]}" --complete 2>/dev/null)
  while IFS=$'\t' read -r name value help; do
    if [[ $name == "$previous" && $value != - ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
    fi
  done <<<"$flags"
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(cut -f 1 <<<"$flags") --help" -- "$current")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}
complete -F _penstock penstock
)sh";

constexpr std::string_view kZsh = R"sh(#compdef penstock
# Completion of penstock for zsh, written by `penstock completion zsh`.
_penstock() {
  local line
  local -a fields items
  if (( CURRENT == 2 )); then
    for line in ${(f)"$(${words[1]} --complete 2>/dev/null)"}; do
      fields=("${(@ps:\t:)line}")
      items+=("${fields[1]}:${fields[2]}")
    done
    _describe command items
    return
  fi
  for line in ${(f)"$(${words[1]} ${words[2]} --complete 2>/dev/null)"}; do
    fields=("${(@ps:\t:)line}")
    if [[ ${fields[1]} == ${words[CURRENT-1]} && ${fields[2]} != - ]]; then
      _files
      return
    fi
    items+=("${fields[1]}:${fields[3]//:/\\:}")
  done
  if [[ ${words[CURRENT]} == -* ]]; then
    _describe flag items
  else
    _files
  fi
}
_penstock "$@"
)sh";

Usage completion_usage() {
  Usage usage;
  usage.command = "completion";
  usage.summary = "Prints a script with which a shell completes the commands and flags of penstock.";
  usage.operand = "bash|zsh";
  usage.notes =
      "Examples:\n"
      "  source <(penstock completion bash)\n"
      "  penstock completion zsh > ~/.zfunc/_penstock      (a folder of $fpath)\n";
  return usage;
}

}  // namespace

int print_completion(const Arguments& arguments) {
  const auto parsed = parse_arguments(completion_usage(), arguments);
  if (!parsed) return parsed.error();
  const std::string shell = parsed->operands.empty() ? "" : parsed->operands.front();
  if (shell == "bash") return print(kBash);
  if (shell == "zsh") return print(kZsh);
  return report_error({core::ErrorCode::kInvalidInput, {}, "`penstock completion` takes bash or zsh", {}});
}

}  // namespace penstock::cli
