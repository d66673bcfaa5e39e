#include "options/arguments.h"

#include <fmt/core.h>

#include <algorithm>

#include "options/scalars.h"

namespace penstock::options {
namespace {

constexpr std::size_t kHelpColumn = 34;
constexpr std::size_t kHelpWidth = 110;

tl::unexpected<core::Error> wrong(std::string where, std::string what, std::string hint = {}) {
  return core::invalid_input(std::move(where), std::move(what), std::move(hint));
}

// Breaks `text` into lines of up to kHelpWidth columns; all but the first are indented to kHelpColumn.
std::string wrapped(std::string_view text) {
  std::string lines;
  std::size_t width = kHelpColumn;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (width > kHelpColumn && width + 1 + end > kHelpWidth) {
      lines += "\n" + std::string(kHelpColumn, ' ');
      width = kHelpColumn;
    } else if (width > kHelpColumn) {
      lines += ' ';
      ++width;
    }
    lines += text.substr(0, end);
    width += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string help_line(const Flag& flag) {
  const std::string left = fmt::format("  {}{}{}", flag.name, flag.value.empty() ? "" : " ", flag.value);
  const std::string help = flag.fallback.empty() ? flag.help : fmt::format("{} [{}]", flag.help, flag.fallback);
  if (left.size() + 2 > kHelpColumn) return left + "\n" + std::string(kHelpColumn, ' ') + wrapped(help) + "\n";
  return fmt::format("{:<{}}{}\n", left, kHelpColumn, wrapped(help));
}

core::Error unknown_flag(const Usage& usage, const std::string& name) {
  std::vector<std::string_view> names;
  for (const Flag& flag : usage.flags) {
    names.push_back(flag.name);
    if (std::find(flag.former_names.begin(), flag.former_names.end(), name) != flag.former_names.end())
      return {core::ErrorCode::kInvalidInput, name, "was renamed", "write " + flag.name};
  }
  const auto begun =
      std::find_if(names.begin(), names.end(), [&](std::string_view full) { return full.starts_with(name); });
  const std::string close = begun != names.end() && name != "-" && name != "--"
                                ? fmt::format("did you mean {}?", *begun)
                                : suggestion(name, names);
  return {core::ErrorCode::kInvalidInput, name, fmt::format("unknown flag of `penstock {}`", usage.command),
          close.empty() ? fmt::format("`penstock {} --help` lists them", usage.command) : close};
}

core::Result<void> check_operands(const Usage& usage, const std::vector<std::string>& operands) {
  if (usage.operand.empty() && !operands.empty())
    return wrong({}, "unexpected argument " + quote(operands[0]),
                 fmt::format("`penstock {}` takes flags only", usage.command));
  // An operand in brackets, such as "[URL]", may be left out.
  const bool is_left_out = usage.operand.starts_with('[') && operands.empty();
  if (usage.operand.empty() || usage.many_operands || is_left_out) return {};
  const auto wanted = static_cast<std::size_t>(std::count(usage.operand.begin(), usage.operand.end(), ' ')) + 1;
  if (operands.size() == wanted) return {};
  return wrong({}, fmt::format("`penstock {}` takes {}{}, there are {}", usage.command, wanted == 1 ? "one " : "",
                               usage.operand, operands.size()));
}

std::string placeholder_of(const Option& option) {
  if (!option.implied.empty()) return {};
  if (!option.shown.empty()) return std::string{option.shown};
  if (option.value.type == "bytes per second") return "BYTES/s";
  std::string word{option.value.type};
  for (char& c : word) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c == ' ' ? '-' : c;
  return word;
}

Flag flag_of(const Option& option) {
  Flag flag{std::string{option.group},
            std::string{option.names.flag},
            placeholder_of(option),
            std::string{option.names.help},
            {},
            std::string{option.implied}};
  // The help of the row describes the key; this flag disables it.
  if (option.implied == "false") flag.help = "do not " + flag.help;
  if (option.implied.empty()) flag.fallback = option.fallback;
  return flag;
}

Flag flag_of(const Table& table, const SectionFlag& section) {
  Flag flag{std::string{section.group}, std::string{section.flag}, "KEY=VALUE,…", std::string{section.help}, {}, {}};
  const std::string prefix = std::string{section.section} + ".";
  for (const Option& option : table.options())
    if (option.names.key.starts_with(prefix) && !option.fallback.empty())
      flag.fallback += fmt::format("{}{}={}", flag.fallback.empty() ? "" : ",", option.names.key.substr(prefix.size()),
                                   option.fallback);
  return flag;
}

std::string shell_quoted(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view{"_-./:,=+@%"}.find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return quoted + "'";
}

}  // namespace

bool Arguments::has(std::string_view flag) const {
  return std::any_of(flags.begin(), flags.end(), [&](const auto& given) { return given.flag == flag; });
}

std::string Arguments::value_of(std::string_view flag, std::string fallback) const {
  for (const FlagValue& given : flags)
    if (given.flag == flag) fallback = given.text;
  return fallback;
}

core::Result<Arguments> parse_words(const Usage& usage, const std::vector<std::string>& words) {
  Arguments read;
  const auto end = std::find(words.begin(), words.end(), "--");
  read.wants_help = std::any_of(words.begin(), end, [](const auto& word) { return word == "--help" || word == "-h"; });
  if (read.wants_help) return read;
  for (auto word = words.begin(); word != end; ++word) {
    if (word->size() < 2 || word->front() != '-') {
      read.operands.push_back(*word);
      continue;
    }
    const std::size_t equals = word->find('=');
    const std::string name = word->substr(0, equals);
    const auto flag =
        std::find_if(usage.flags.begin(), usage.flags.end(), [&](const Flag& each) { return each.name == name; });
    if (flag == usage.flags.end()) return tl::make_unexpected(unknown_flag(usage, name));
    const bool has_text = equals != std::string::npos;
    if (flag->value.empty() && has_text)
      return wrong(name, "takes no value, is given " + quote(word->substr(equals + 1)));
    if (flag->value.empty()) {
      read.flags.push_back({name, flag->implied});
    } else if (has_text) {
      read.flags.push_back({name, word->substr(equals + 1)});
    } else {
      if (++word == end) return wrong(name, "needs a value");
      if (word->starts_with("--")) return wrong(name, "needs a value, is followed by " + *word);
      read.flags.push_back({name, *word});
    }
  }
  if (end != words.end()) read.operands.insert(read.operands.end(), end + 1, words.end());
  if (auto checked = check_operands(usage, read.operands); !checked) return tl::make_unexpected(checked.error());
  return read;
}

std::string help_page(const Usage& usage) {
  std::string page = fmt::format("Usage: penstock {}{}{}{}\n\n{}\n", usage.command, usage.operand.empty() ? "" : " ",
                                 usage.operand, usage.many_operands ? "… [FLAG…]" : " [FLAG…]", usage.summary);
  std::vector<std::string_view> groups;
  for (const Flag& flag : usage.flags)
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
  for (const std::string_view group : groups) {
    page += fmt::format("\n{}:\n", group);
    for (const Flag& flag : usage.flags)
      if (flag.group == group) page += help_line(flag);
  }
  if (!usage.notes.empty()) page += "\n" + usage.notes;
  return page;
}

std::vector<Flag> flags_of(const Table& table, const std::vector<std::string_view>& groups) {
  std::vector<Flag> flags;
  const auto wanted = [&](std::string_view group) {
    return groups.empty() || std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  for (const Option& option : table.options())
    if (!option.names.flag.empty() && wanted(option.group)) flags.push_back(flag_of(option));
  for (const SectionFlag& section : table.section_flags())
    if (wanted(section.group)) flags.push_back(flag_of(table, section));
  for (const List& list : table.lists())
    if (!list.names.flag.empty() && wanted(list.group))
      flags.push_back(
          {std::string{list.group}, std::string{list.names.flag}, "KEY=VALUE,…", std::string{list.names.help}, {}, {}});
  for (const Renamed& renamed : table.renames())
    for (Flag& flag : flags)
      if (flag.name == renamed.to) flag.former_names.emplace_back(renamed.from);
  return flags;
}

std::vector<std::string> as_flags(const Table& table) {
  std::vector<std::string> words;
  for (const Option& option : table.options()) {
    const std::string text = option.value.format();
    if (option.names.flag.empty() || text.empty()) continue;
    if (option.implied.empty())
      words.insert(words.end(), {std::string{option.names.flag}, text});
    else if (text == option.implied)
      words.emplace_back(option.names.flag);
  }
  return words;
}

std::string command_line(const Usage& usage, const Arguments& arguments, const std::vector<std::string_view>& without) {
  std::string line = "penstock " + usage.command;
  for (const std::string& operand : arguments.operands) line += " " + shell_quoted(operand);
  for (const FlagValue& given : arguments.flags) {
    const auto flag =
        std::find_if(usage.flags.begin(), usage.flags.end(), [&](const Flag& f) { return f.name == given.flag; });
    if (std::find(without.begin(), without.end(), given.flag) != without.end() || flag == usage.flags.end()) continue;
    line += " " + given.flag;
    if (!flag->value.empty()) line += " " + shell_quoted(given.text);
  }
  return line;
}

}  // namespace penstock::options
