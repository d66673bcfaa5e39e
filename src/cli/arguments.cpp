#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <map>

#include "cli/console.h"
#include "config/replay_options.h"
#include "config/scalars.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kHelpColumn = 34;
constexpr std::size_t kHelpWidth = 110;

core::Error wrong(std::string where, std::string what, std::string hint = {}) {
  return {core::ErrorCode::kInvalidInput, std::move(where), std::move(what), std::move(hint)};
}

// Words of `text` in lines up to kHelpWidth, all but the first indented to kHelpColumn.
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

core::Error unknown_flag(const Usage& usage, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string_view> names;
  for (const Flag& flag : usage.flags) names.push_back(flag.name);
  const auto begun =
      std::find_if(names.begin(), names.end(), [&](std::string_view full) { return full.starts_with(name); });
  const std::string close = begun != names.end() && name != "-" && name != "--"
                                ? fmt::format("did you mean {}?", *begun)
                                : config::suggestion(name, names);
  return wrong(name, fmt::format("is no flag of `penstock {}`", usage.command),
               close.empty() ? fmt::format("`penstock {} --help` lists them", usage.command) : close);
}

// The library's parser, filled from the usage. Its answers are read by parse_order, which keeps what order says.
class Reader {
 public:
  explicit Reader(const Usage& usage) : usage_(usage) {
    app_.set_help_flag();
    app_.allow_extras();
    help_ = app_.add_flag("-h,--help");
    for (const Flag& flag : usage.flags) {
      CLI::Option* option = flag.value.empty() ? app_.add_flag(flag.name) : app_.add_option(flag.name);
      if (!flag.value.empty()) option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      by_option_[option] = &flag;
    }
  }

  [[nodiscard]] bool wants_help() const { return help_->count() > 0; }

  core::Result<Parsed> read(const Arguments& arguments) {
    const auto end = std::find(arguments.begin(), arguments.end(), "--");
    try {
      app_.parse(Arguments(std::make_reverse_iterator(end), arguments.rend()));
    } catch (const CLI::ArgumentMismatch& error) {
      const std::string_view message = error.what();  // "--json: 1 required TEXT missing"
      return tl::make_unexpected(wrong(std::string{message.substr(0, message.find(':'))}, "needs a value"));
    } catch (const CLI::ParseError& error) {
      return tl::make_unexpected(wrong({}, error.what()));
    }
    if (wants_help()) return Parsed{};
    Parsed parsed;
    for (const std::string& word : app_.remaining()) {
      if (word.size() > 1 && word.front() == '-') return tl::make_unexpected(unknown_flag(usage_, word));
      parsed.operands.push_back(word);
    }
    if (end != arguments.end()) parsed.operands.insert(parsed.operands.end(), end + 1, arguments.end());
    if (auto collected = collect_flags(parsed); !collected) return tl::make_unexpected(collected.error());
    return check(std::move(parsed));
  }

 private:
  core::Result<void> collect_flags(Parsed& parsed) const {
    std::map<const CLI::Option*, std::size_t> seen;
    for (const CLI::Option* option : app_.parse_order()) {
      const auto found = by_option_.find(option);
      if (found == by_option_.end()) continue;
      const Flag& flag = *found->second;
      const std::string& text = option->results().at(seen[option]++);
      if (flag.value.empty() && text != "true")
        return tl::make_unexpected(wrong(flag.name, "takes no value, is given " + config::quoted(text)));
      parsed.flags.push_back({flag.name, flag.value.empty() ? flag.implied : text});
    }
    return {};
  }

  core::Result<Parsed> check(Parsed parsed) const {
    for (const config::FlagValue& flag : parsed.flags)
      if (flag.text.starts_with("--"))
        return tl::make_unexpected(wrong(flag.flag, fmt::format("needs a value, is followed by {}", flag.text)));
    const std::size_t operands = parsed.operands.size();
    if (usage_.operand.empty() && operands > 0)
      return tl::make_unexpected(wrong({}, "does not know what to do with " + config::quoted(parsed.operands[0]),
                                       fmt::format("`penstock {}` takes flags only", usage_.command)));
    if (!usage_.operand.empty() && !usage_.many_operands && operands != 1)
      return tl::make_unexpected(
          wrong({}, fmt::format("`penstock {}` takes one {}, there are {}", usage_.command, usage_.operand, operands)));
    return parsed;
  }

  const Usage& usage_;
  CLI::App app_;
  CLI::Option* help_ = nullptr;
  std::map<const CLI::Option*, const Flag*> by_option_;
};

std::string placeholder(const config::Option& option) {
  if (!option.implied.empty()) return {};
  if (option.flag == "--report-dir") return "FOLDER";
  if (option.type == "text") return option.group == "Output" ? "FILE" : option.flag == "--engine" ? "MODEL" : "NAME";
  if (option.type == "bytes per second") return "BYTES/s";
  std::string word{option.type};
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  return word;
}

Flag flag_of(const config::Option& option) {
  const config::ReplaySettings defaults;
  Flag flag{std::string{option.group}, std::string{option.flag}, placeholder(option), std::string{option.help}, {}, {}};
  flag.implied = option.implied;
  // The table tells what the key is for; such a flag switches it off.
  if (option.implied == "false") flag.help = "do not " + flag.help;
  if (option.implied.empty()) flag.fallback = option.show(defaults, defaults.pools.front());
  return flag;
}

Flag flag_of(const config::CompositeFlag& composite) {
  const config::ReplaySettings defaults;
  Flag flag{
      std::string{composite.group}, std::string{composite.flag}, "KEY=VALUE,…", std::string{composite.help}, {}, {}};
  const std::string section = std::string{composite.section} + ".";
  for (const config::Option& option : config::replay_options()) {
    const std::string value = option.show(defaults, defaults.pools.front());
    if (!option.key.starts_with(section) || value.empty()) continue;
    flag.fallback += fmt::format("{}{}={}", flag.fallback.empty() ? "" : ",", option.key.substr(section.size()), value);
  }
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

bool Parsed::has(std::string_view flag) const {
  return std::any_of(flags.begin(), flags.end(), [&](const auto& given) { return given.flag == flag; });
}

std::string Parsed::value_of(std::string_view flag, std::string fallback) const {
  for (const config::FlagValue& given : flags)
    if (given.flag == flag) fallback = given.text;
  return fallback;
}

tl::expected<Parsed, int> parse_arguments(const Usage& usage, const Arguments& arguments) {
  Reader reader{usage};
  auto parsed = reader.read(arguments);
  if (reader.wants_help()) return tl::make_unexpected(print(help_page(usage)));
  if (!parsed) return tl::make_unexpected(complain(parsed.error()));
  return *std::move(parsed);
}

std::vector<Flag> replay_flags(const std::vector<std::string_view>& groups) {
  std::vector<Flag> flags;
  const auto wanted = [&](std::string_view group) {
    return groups.empty() || std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  for (const config::Option& option : config::replay_options())
    if (!option.flag.empty() && wanted(option.group)) flags.push_back(flag_of(option));
  for (const config::CompositeFlag& composite : config::composite_flags())
    if (wanted(composite.group)) flags.push_back(flag_of(composite));
  return flags;
}

std::vector<config::FlagValue> replay_flag_values(const Parsed& parsed) {
  const std::vector<Flag> known = replay_flags();
  std::vector<config::FlagValue> values = parsed.flags;
  std::erase_if(values, [&](const config::FlagValue& value) {
    return std::none_of(known.begin(), known.end(), [&](const Flag& flag) { return flag.name == value.flag; });
  });
  return values;
}

std::string command_line(const Usage& usage, const Parsed& parsed, const std::vector<std::string_view>& without) {
  std::string line = "penstock " + usage.command;
  for (const std::string& operand : parsed.operands) line += " " + shell_quoted(operand);
  for (const config::FlagValue& given : parsed.flags) {
    const auto flag =
        std::find_if(usage.flags.begin(), usage.flags.end(), [&](const Flag& f) { return f.name == given.flag; });
    if (std::find(without.begin(), without.end(), given.flag) != without.end() || flag == usage.flags.end()) continue;
    line += " " + given.flag;
    if (!flag->value.empty()) line += " " + shell_quoted(given.text);
  }
  return line;
}

}  // namespace penstock::cli
