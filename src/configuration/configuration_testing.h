// Helpers of the tests of the configuration.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "configuration/configuration.h"

namespace penstock::configuration {

inline options::Source source(std::string yaml, std::vector<options::FlagValue> flags = {}) {
  return {yaml.empty() ? "" : "p.yaml", std::move(yaml), std::move(flags)};
}

inline Configuration loaded(std::string yaml, std::vector<options::FlagValue> flags = {}) {
  auto made = load_configuration(source(std::move(yaml), std::move(flags)));
  if (!made) ADD_FAILURE() << made.error().front().message();
  return made.value_or(Configuration{});
}

// Returns all messages, one per line.
inline std::string problems(std::string yaml, std::vector<options::FlagValue> flags = {}) {
  const auto made = load_configuration(source(std::move(yaml), std::move(flags)));
  std::string text;
  if (!made)
    for (const core::Error& error : made.error()) text += error.message() + "\n";
  return text;
}

}  // namespace penstock::configuration
