#include "replay/schedule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>

#include "options/scalars.h"

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

core::Result<core::Duration> time_of(std::string_view text) {
  const bool is_number = text.find_first_not_of("0123456789.") == std::string_view::npos;
  return options::parse_duration(is_number && text != "0" ? std::string{text} + "s" : std::string{text});
}

class Reader {
 public:
  Reader(const std::string& file, std::span<const std::string> pools) : file_(file), pools_(pools) {}

  core::Result<void> read_line(std::string_view line) {
    ++line_;
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) return {};
    const std::vector<std::string_view> cells = cells_of(line);
    if (!has_header_) return read_header(cells);
    if (cells.size() != pools_.size() + 1)
      return error(fmt::format("has {} columns instead of {}", cells.size(), pools_.size() + 1));
    const auto from = time_of(cells[0]);
    if (!from) return error("time " + from.error().what, "write seconds or a duration such as 90s or 1h30m");
    if (made_.front().empty() && *from != core::Duration::zero())
      return error("the first time must be 0", "add a line for the time before");
    if (!made_.front().empty() && *from <= made_.front().back().from)
      return error(fmt::format("time {} must be above {} of the line before", options::quote(cells[0]),
                               options::format_duration(made_.front().back().from)));
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      const auto replicas = options::parse_count(cells[i + 1], 0, kReplicasMax);
      if (!replicas) return error("replicas " + replicas.error().what);
      made_[i].push_back({*from, static_cast<std::uint32_t>(*replicas)});
    }
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
    return pools_.size() == 1 ? "time,replicas" : fmt::format("time,{}", fmt::join(pools_, ","));
  }

  core::Result<void> read_header(const std::vector<std::string_view>& cells) {
    std::string written;
    for (const std::string_view cell : cells) written += (written.empty() ? "" : ",") + std::string{cell};
    const bool is_named = cells.size() == pools_.size() + 1 && cells[0] == "time" &&
                          std::equal(pools_.begin(), pools_.end(), cells.begin() + 1);
    if (!is_named && written != header())
      return error("the header must be " + header() + ", is " + options::quote(written));
    has_header_ = true;
    made_.resize(pools_.size());
    return {};
  }

  [[nodiscard]] core::Result<void> error(std::string what, std::string hint = {}) const {
    return core::invalid_input(fmt::format("{}:{}", file_, line_), std::move(what), std::move(hint));
  }

  const std::string& file_;
  std::span<const std::string> pools_;
  std::size_t line_ = 0;
  bool has_header_ = false;
  std::vector<planner::PoolSteps> made_;
};

}  // namespace

core::Result<std::vector<planner::PoolSteps>> parse_schedule(std::string_view text, const std::string& file,
                                                             std::span<const std::string> pools) {
  Reader reader{file, pools};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto read = reader.read_line(text.substr(0, end)); !read) return tl::make_unexpected(read.error());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

core::Result<std::vector<planner::PoolSteps>> read_schedule(const std::string& file,
                                                            std::span<const std::string> pools) {
  std::ifstream stream{file, std::ios::binary};
  std::string text(kBytesMax + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  if (!stream.eof() && text.size() <= kBytesMax) return core::invalid_input(file, "cannot be read");
  if (text.size() > kBytesMax) return core::invalid_input(file, "is larger than 64 MiB");
  return parse_schedule(text, file, pools);
}

}  // namespace penstock::replay
