// The points of the charts since the last report, one a minute, kept in a file across restarts.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::dashboard {

class History {
 public:
  // `file` has a JSON object on each line: a point, with `unix_s` (seconds since 1970) in place of `at_s`. Empty: the
  // history ends with the process. At most `points_max` points are kept, of which the oldest go first.
  History(std::string file, std::size_t points_max);

  // Reads the file of a former process. Lines that are no points, such as one that was cut by a crash, are skipped, and
  // so are points of the future. Errors are of the environment; a missing file is none.
  [[nodiscard]] core::Result<void> load(double now_unix_s);

  // `point` is a JSON object with `at_s`. Errors are of the environment and name the file; the point is kept in memory.
  [[nodiscard]] core::Result<void> add(double unix_s, std::string_view point);
  // Forgets all points.
  [[nodiscard]] core::Result<void> clear();

  // A list of all points, oldest first. `at_s` counts from the moment `start_unix_s`, thus it is negative for points of
  // a former process.
  [[nodiscard]] std::string document(double start_unix_s) const;
  [[nodiscard]] bool empty() const { return points_.empty(); }
  [[nodiscard]] double begin_unix_s() const { return points_.front().unix_s; }  // Not empty.

 private:
  struct Point {
    double unix_s = 0.0;
    std::string members;  // Of the object, without its times and braces.
  };
  [[nodiscard]] static std::string line_of(const Point& point);
  [[nodiscard]] core::Result<void> rewrite();

  std::string file_;
  std::size_t points_max_;
  std::deque<Point> points_;
  std::size_t lines_ = 0;  // In the file.
};

}  // namespace penstock::dashboard
