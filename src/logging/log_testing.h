// A log that tests read.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "logging/line.h"

namespace penstock::logging::testing {

// Keeps lines without time and level. A field that the table of events does not name is a failure.
class CapturedLog final : public Log {
 public:
  explicit CapturedLog(Level level = Level::kDebug) : Log(level) {}

  [[nodiscard]] std::vector<std::string> lines() const {
    const std::scoped_lock lock{mutex_};
    return lines_;
  }
  [[nodiscard]] std::vector<std::string> lines(Event event) const {
    std::vector<std::string> found = lines();
    std::erase_if(found,
                  [&](const std::string& line) { return line.substr(0, line.find(' ')) != info_of(event).name; });
    return found;
  }
  [[nodiscard]] std::size_t count(Event event) const { return lines(event).size(); }

 private:
  void append(Event event, std::span<const Field> fields) override {
    const std::string known = " " + std::string{info_of(event).fields} + " ";
    for (const Field& field : fields)
      EXPECT_NE(known.find(" " + std::string{field.name} + " "), std::string::npos)
          << info_of(event).name << " has no field " << field.name;
    const std::scoped_lock lock{mutex_};
    lines_.push_back(format_line(Format::kText, event, fields));
  }

  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace penstock::logging::testing
