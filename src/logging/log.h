// Where a process reports its events.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "logging/event.h"

namespace penstock::logging {

// A field's value: text of any bytes, a number or a truth value. Empty text and numbers that are not finite mean that
// the value is unknown, and the line leaves the field out. The text must live during write().
class Value {
 public:
  using Kind = std::variant<std::string_view, std::uint64_t, std::int64_t, double, bool>;

  Value(std::string_view text) : kind_(text) {}
  Value(const std::string& text) : kind_(std::string_view{text}) {}
  Value(const char* text) : kind_(std::string_view{text}) {}
  Value(bool value) : kind_(value) {}
  Value(std::floating_point auto value) : kind_(static_cast<double>(value)) {}
  Value(std::unsigned_integral auto value) : kind_(std::uint64_t{value}) {}
  Value(std::signed_integral auto value) : kind_(std::int64_t{value}) {}

  [[nodiscard]] const Kind& kind() const { return kind_; }

 private:
  Kind kind_;
};

struct Field {
  std::string_view name;  // as in the table of events
  Value value;
};

// Any thread may write. Implementations do not block: a line that cannot be taken at once is dropped and counted.
class Log {
 public:
  virtual ~Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // False: write() of this event does nothing, and its fields need not be computed.
  [[nodiscard]] bool takes(Event event) const { return info_of(event).level >= level_.load(std::memory_order_relaxed); }
  void set_level(Level level) { level_.store(level, std::memory_order_relaxed); }
  void write(Event event, std::initializer_list<Field> fields = {}) {
    if (takes(event)) append(event, {fields.begin(), fields.size()});
  }

 protected:
  explicit Log(Level level) : level_(level) {}

 private:
  virtual void append(Event event, std::span<const Field> fields) = 0;

  std::atomic<Level> level_;
};

}  // namespace penstock::logging
