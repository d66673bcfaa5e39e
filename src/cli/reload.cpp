#include "cli/reload.h"

#include <fmt/format.h>

#include <utility>

#include "options/yaml.h"

namespace penstock::cli {
namespace {

std::string keys_of(const std::vector<options::Change>& changes) {
  std::string keys;
  for (const options::Change& change : changes) keys.append(keys.empty() ? "" : ",").append(change.key);
  return keys;
}

}  // namespace

options::Problems read_again(const Parsed& parsed, LoadedConfiguration& next) {
  const std::string file = parsed.value_of("--config");
  if (file == "-")
    return {
        core::Error{core::ErrorCode::kInvalidInput, "--config", "standard input cannot be read again", "name a file"}};
  options::Source source{file, {}, parsed.flags};
  if (!file.empty()) {
    auto text = options::read_text_file(file, options::YamlLimits{}.bytes_max);
    if (!text) return {text.error()};
    source.yaml = *std::move(text);
  }
  auto read = configuration::load(next.made, next.table, source);
  if (!read) return read.error();
  next.reading = *std::move(read);
  return {};
}

void log_reload(logging::Log& log, std::string_view file, const ReloadChanges& changes) {
  for (const options::Change& change : changes.applied)
    log.write(logging::Event::kConfigChanged, {{"key", change.key}, {"from", change.before}, {"to", change.after}});
  log.write(logging::Event::kConfigReloaded, {{"file", file}, {"applied", keys_of(changes.applied)}});
  if (!changes.pending.empty())
    log.write(logging::Event::kRestartNeeded, {{"file", file}, {"keys", keys_of(changes.pending)}});
}

void log_problems(logging::Log& log, std::string_view file, const options::Problems& problems) {
  for (const core::Error& problem : problems)
    log.write(logging::Event::kConfigReloadFailed, {{"file", file}, {"error", problem.message()}});
}

}  // namespace penstock::cli
