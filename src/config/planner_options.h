// The rows of the table of options that say what the planner aims at and how it works, and the keys of the two lists of
// sections among them.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "config/replay_options.h"

namespace penstock::config {

void add_targets(std::vector<Option>& table, std::string_view group);  // slo.goal, slo.segments
void add_planner(std::vector<Option>& table);

// One key of a section in a list.
template <class Item>
struct ItemKey {
  std::string_view key, type, fallback, help;
  bool required = false;
  // Puts a value there; errors have no place.
  std::function<core::Result<void>(Item&, std::string_view)> put;
};
// Puts what `parse` reads into the member of the item.
template <class Item, class Field, class Parse>
std::function<core::Result<void>(Item&, std::string_view)> put_into(Field Item::*field, Parse parse) {
  return [=](Item& item, std::string_view text) -> core::Result<void> {
    auto value = parse(text);
    if (!value) return tl::make_unexpected(value.error());
    item.*field = static_cast<Field>(*std::move(value));
    return {};
  };
}
[[nodiscard]] const std::vector<ItemKey<SegmentSettings>>& segment_keys();    // of slo.segments
[[nodiscard]] const std::vector<ItemKey<ScheduleSettings>>& schedule_keys();  // of planner.schedules

constexpr std::size_t kSegmentsMax = 64;
constexpr std::size_t kSchedulesMax = 256;
// What reports call the target of the requests in no segment.
constexpr std::string_view kGeneralTarget = "general";

// The same for the reference page. `list` is the key of an option with `items`.
struct ItemRow {
  std::string_view key, type, fallback, help;
};
[[nodiscard]] std::vector<ItemRow> item_rows(std::string_view list);

}  // namespace penstock::config
