#include "replay/schedule_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "options/scalars.h"
#include "options/yaml.h"

namespace penstock::replay {
namespace {

constexpr std::size_t kBytesMax = 64U << 20U;
constexpr std::uint64_t kReplicasMax = 1'000'000;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    cells.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return cells;
}

std::optional<core::Duration> time_of(std::string_view text) {
  const bool is_number = text.find_first_not_of("0123456789.") == std::string_view::npos;
  const auto time = options::parse_duration(is_number && text != "0" ? std::string{text} + "s" : std::string{text});
  return time ? std::optional{*time} : std::nullopt;
}

class Reader {
 public:
  Reader(const std::string& file, std::span<const ScheduledPool> pools) : file_(file), pools_(pools) {}

  core::Result<void> read_line(std::string_view line) {
    ++line_;
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) return {};
    const std::vector<std::string_view> cells = cells_of(line);
    if (!has_header_) return read_header(cells);
    if (cells.size() != pools_.size() + 1)
      return error(fmt::format("has {} columns instead of {}", cells.size(), pools_.size() + 1));
    const auto from = time_of(cells[0]);
    if (!from)
      return error("time must be seconds or a duration of at most 3650d, is " + options::quote(cells[0]),
                   "write it as 90, 90s or 1h30m");
    if (made_.front().empty() && *from != core::Duration::zero())
      return error("the first time must be 0", "add a line for the time before");
    if (!made_.front().empty() && *from <= made_.front().back().from)
      return error(fmt::format("time {} must be above {} of the line before", options::quote(cells[0]),
                               options::format_duration(made_.front().back().from)));
    for (std::size_t i = 0; i < pools_.size(); ++i)
      if (auto read = read_replicas(i, *from, cells[columns_[i]]); !read) return read;
    return {};
  }

  core::Result<std::vector<planner::PoolSteps>> finish() {
    if (made_.empty() || made_.front().empty())
      return core::invalid_input(file_, "contains no line with a time",
                                 "begin with the lines `" + header() + "` and `0,1`");
    return std::move(made_);
  }

 private:
  [[nodiscard]] std::string header() const {
    if (pools_.size() == 1) return "time,replicas";
    std::string text = "time";
    for (const ScheduledPool& pool : pools_) text += "," + pool.name;
    return text;
  }

  core::Result<void> read_replicas(std::size_t pool, core::Duration from, std::string_view cell) {
    const std::string whose = pools_.size() == 1 ? "replicas" : "replicas of " + pools_[pool].name;
    const auto replicas = options::parse_count(cell, 0, kReplicasMax);
    if (!replicas) return error(fmt::format("{} {}", whose, replicas.error().what));
    if (*replicas > pools_[pool].max_replicas)
      return error(
          fmt::format("{} must be at most max_replicas ({}), is {}", whose, pools_[pool].max_replicas, *replicas),
          "raise --max-replicas, or lower the number");
    made_[pool].push_back({from, static_cast<std::uint32_t>(*replicas)});
    return {};
  }

  core::Result<void> read_header(const std::vector<std::string_view>& cells) {
    const bool is_short = pools_.size() == 1 && cells.size() == 2 && cells[1] == "replicas";
    for (const ScheduledPool& pool : pools_) {
      const auto column = is_short ? cells.begin() + 1 : std::find(cells.begin() + 1, cells.end(), pool.name);
      if (column != cells.end()) columns_.push_back(static_cast<std::size_t>(column - cells.begin()));
    }
    if (cells[0] != "time" || cells.size() != pools_.size() + 1 || columns_.size() != pools_.size()) {
      const std::string written = fmt::format("{}", fmt::join(cells, ","));
      return error("the header must be " + header() + ", is " + options::quote(written));
    }
    has_header_ = true;
    made_.resize(pools_.size());
    return {};
  }

  [[nodiscard]] core::Result<void> error(std::string what, std::string hint = {}) const {
    return core::invalid_input(fmt::format("{}:{}", file_, line_), std::move(what), std::move(hint));
  }

  const std::string& file_;
  std::span<const ScheduledPool> pools_;
  std::vector<std::size_t> columns_;  // By pool.
  std::size_t line_ = 0;
  bool has_header_ = false;
  std::vector<planner::PoolSteps> made_;
};

}  // namespace

core::Result<std::vector<planner::PoolSteps>> parse_schedule(std::string_view text, const std::string& file,
                                                             std::span<const ScheduledPool> pools) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Reader reader{file, pools};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto read = reader.read_line(text.substr(0, end)); !read) return tl::make_unexpected(read.error());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

core::Result<std::vector<planner::PoolSteps>> read_schedule(const std::string& file,
                                                            std::span<const ScheduledPool> pools) {
  const auto text = options::read_text_file(file, kBytesMax);
  if (!text)
    return core::invalid_input("--policy", fmt::format("schedule file {} {}", options::quote(file), text.error().what),
                               text.error().hint);
  return parse_schedule(*text, file, pools);
}

}  // namespace penstock::replay
