// What tests of replay settings share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/replay.h"

namespace penstock::config {

inline const std::vector<std::string_view> kPolicies = {"static", "hpa-rate", "keda-tokens", "dynamo-latency",
                                                        "clairvoyant"};

inline ReplaySources sources(std::string yaml, std::vector<FlagValue> flags = {}) {
  ReplaySources made;
  made.file = yaml.empty() ? "" : "p.yaml";
  made.yaml = std::move(yaml);
  made.flags = std::move(flags);
  made.policies = kPolicies;
  made.predictors = {"constant", "seasonal", "auto"};
  return made;
}

inline ReplaySettings loaded(std::string yaml, std::vector<FlagValue> flags = {}) {
  auto settings = load_replay(sources(std::move(yaml), std::move(flags)));
  if (!settings) ADD_FAILURE() << settings.error().front().message();
  return settings.value_or(ReplaySettings{});
}

// All messages, one a line.
inline std::string problems(std::string yaml, std::vector<FlagValue> flags = {}) {
  const auto settings = load_replay(sources(std::move(yaml), std::move(flags)));
  std::string text;
  if (!settings)
    for (const core::Error& error : settings.error()) text += error.message() + "\n";
  return text;
}

}  // namespace penstock::config
