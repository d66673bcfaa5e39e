// The one table of what a replay can be told. YAML keys, flags, help and the reference page all come from it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/replay.h"

namespace penstock::config {

// Where an option puts its value: the replay, or one of its pools.
struct OptionTarget {
  ReplaySettings& replay;
  PoolSettings& pool;
};

struct Option {
  std::string_view group;  // heading in the help and the reference
  std::string_view key;    // in YAML, "slo.ttft"
  std::string_view flag;   // "--start-up"; "" has none
  std::string_view type;   // "count", "duration", …
  std::string_view help;   // one line without a full stop
  bool per_pool = false;   // may stand in an item of `pools`, too
  bool pool_only = false;  // … and nowhere else
  bool list = false;       // a list in YAML, commas in a flag
  bool items = false;  // a list of sections, in YAML only; `put` refuses, the sections' keys are in planner_options.h
  std::string_view implied;  // what a flag without a value says; "" for one that takes a value
  // Puts a value there, or several if `list`; errors have no place.
  std::function<core::Result<void>(OptionTarget, std::span<const std::string>)> put;
  std::function<std::string(const ReplaySettings&, const PoolSettings&)> show;  // the value as it would be written
};

[[nodiscard]] const std::vector<Option>& replay_options();

// A flag that stands for several keys: `--slo ttft=2s,itl=50ms` says slo.ttft and slo.itl.
struct CompositeFlag {
  std::string_view group;
  std::string_view flag;
  std::string_view section;  // "slo"; "pools" adds a pool
  std::string_view help;
};
[[nodiscard]] std::span<const CompositeFlag> composite_flags();

// The reference page, docs/reference/replay-options.md.
[[nodiscard]] std::string replay_options_markdown();

}  // namespace penstock::config
