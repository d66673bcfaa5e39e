#include "dashboard/history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/write_file.h"

namespace penstock::dashboard {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kRounding_s = 1.0;  // Of the times in the file.

// The members of a point other than its time; empty if it has none.
std::string members_of(Json point) {
  point.erase("at_s");
  point.erase("unix_s");
  const std::string text = point.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

std::string object_of(std::string_view time, double value, const std::string& members) {
  return fmt::format("{{\"{}\":{:.3f}{}{}}}", time, value, members.empty() ? "" : ",", members);
}

}  // namespace

History::History(std::string file, std::size_t points_max) : file_(std::move(file)), points_max_(points_max) {}

std::string History::line_of(const Point& point) { return object_of("unix_s", point.unix_s, point.members) + "\n"; }

core::Result<void> History::rewrite() {
  std::string text;
  for (const Point& point : points_) text += line_of(point);
  lines_ = points_.size();
  return report::write_file(file_, text);
}

core::Result<void> History::load(double now_unix_s) {
  if (file_.empty() || ::access(file_.c_str(), F_OK) != 0) return {};
  std::ifstream stream{file_};
  if (!stream) return core::environment_error(file_, "cannot be read");
  double last = 0.0;
  for (std::string line; std::getline(stream, line); ++lines_) {
    const Json point = Json::parse(line, nullptr, false);
    if (!point.is_object()) continue;
    const auto at = point.find("unix_s");
    if (at == point.end() || !at->is_number()) continue;
    const double unix_s = at->get<double>();
    if (!(unix_s > last) || unix_s > now_unix_s + kRounding_s) continue;
    last = unix_s;
    points_.push_back({unix_s, members_of(point)});
    if (points_.size() > points_max_) points_.pop_front();
  }
  if (stream.bad()) return core::environment_error(file_, "cannot be read");
  return lines_ == points_.size() ? core::Result<void>{} : rewrite();
}

core::Result<void> History::add(double unix_s, std::string_view point) {
  Json parsed = Json::parse(point, nullptr, false);
  PENSTOCK_ASSERT(parsed.is_object(), "a point is an object");
  // Times ascend: after a step of the clock back, what is later than now is forgotten.
  const bool stepped_back = !points_.empty() && points_.back().unix_s >= unix_s;
  while (!points_.empty() && points_.back().unix_s >= unix_s) points_.pop_back();
  points_.push_back({unix_s, members_of(std::move(parsed))});
  if (points_.size() > points_max_) points_.pop_front();
  if (file_.empty()) return {};
  // The file may have as many lines of forgotten points as of others.
  if (stepped_back || lines_ >= 2 * points_max_) return rewrite();
  const int file = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return core::environment_error(file_, "cannot be written");
  const std::string line = line_of(points_.back());
  const auto written = ::write(file, line.data(), line.size());
  ::close(file);
  if (written != static_cast<::ssize_t>(line.size())) return core::environment_error(file_, "cannot be written");
  ++lines_;
  return {};
}

core::Result<void> History::clear() {
  points_.clear();
  return file_.empty() || lines_ == 0 ? core::Result<void>{} : rewrite();
}

std::string History::document(double start_unix_s) const {
  std::string text = "[";
  for (const Point& point : points_) {
    if (text.size() > 1) text += ',';
    text += object_of("at_s", point.unix_s - start_unix_s, point.members);
  }
  return text + "]";
}

}  // namespace penstock::dashboard
