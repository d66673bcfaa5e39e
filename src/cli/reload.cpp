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

bool has_empty_file(const options::Source& source) {
  if (source.file.empty()) return false;
  const auto root = options::parse_yaml(source.file, source.yaml);
  return root && root->items.empty() && root->kind != options::YamlNode::Kind::kScalar;
}

options::Problems read_again(const Parsed& parsed, const LoadedConfiguration& in_force, LoadedConfiguration& next) {
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
  next.has_empty_file = has_empty_file(source);
  if (next.has_empty_file && !in_force.has_empty_file)
    return {core::Error{core::ErrorCode::kInvalidInput, file, "the file is empty, so that no value was changed",
                        "write the configuration, or restart without it"}};
  auto read = configuration::load(next.made, next.table, source);
  if (!read) return read.error();
  next.reading = *std::move(read);
  next.loosened = configuration::loosened_limits(in_force.made, next.made, *next.reading);
  return configuration::check_loosened(next.loosened);
}

std::vector<configuration::LoosenedLimit> loosened_of(configuration::LoosenedLimit::Process process,
                                                      const LoadedConfiguration& next) {
  std::vector<configuration::LoosenedLimit> found = next.loosened;
  std::erase_if(found, [&](const configuration::LoosenedLimit& limit) { return limit.process != process; });
  return found;
}

void log_reload(logging::Log& log, std::string_view file, const ReloadChanges& changes) {
  for (const options::Change& change : changes.applied)
    log.write(logging::Event::kConfigChanged, {{"key", change.key}, {"from", change.before}, {"to", change.after}});
  for (const configuration::LoosenedLimit& limit : changes.loosened)
    log.write(logging::Event::kLimitLoosened, {{"key", limit.key}, {"from", limit.before}, {"to", limit.after}});
  log.write(logging::Event::kConfigReloaded, {{"file", file}, {"applied", keys_of(changes.applied)}});
  if (!changes.pending.empty())
    log.write(logging::Event::kRestartNeeded, {{"file", file}, {"keys", keys_of(changes.pending)}});
}

void log_problems(logging::Log& log, std::string_view file, const options::Problems& problems) {
  for (const core::Error& problem : problems)
    log.write(logging::Event::kConfigReloadFailed, {{"file", file}, {"error", problem.message()}});
}

}  // namespace penstock::cli
