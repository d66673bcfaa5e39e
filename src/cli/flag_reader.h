// Flags into typed values, one line a flag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/arguments.h"
#include "config/scalars.h"
#include "core/result.h"

namespace penstock::cli {

// Collects the first fault, with the flag as its place.
class FlagReader {
 public:
  explicit FlagReader(const Parsed& parsed) : parsed_(parsed) {}

  // The value of the flag by `parse`, or what it already is where the flag is not given.
  template <class Value, class Parse>
  void read(const char* flag, Value& value, const Parse& parse) {
    if (!parsed_.has(flag) || error_) return;
    auto read = parse(parsed_.value_of(flag));
    if (read) {
      value = static_cast<Value>(*std::move(read));
      return;
    }
    error_ = read.error();
    error_->where = flag;
  }
  template <class Count>
  void count(const char* flag, Count& value, std::uint64_t low, std::uint64_t high) {
    read(flag, value, [&](const std::string& text) { return config::parse_count(text, low, high); });
  }
  void number(const char* flag, double& value, double low, double high) {
    read(flag, value, [&](const std::string& text) { return config::parse_number(text, low, high); });
  }
  void share(const char* flag, double& value) { read(flag, value, config::parse_share); }
  void duration(const char* flag, core::Duration& value) { read(flag, value, config::parse_duration); }

  [[nodiscard]] const std::optional<core::Error>& error() const { return error_; }

 private:
  const Parsed& parsed_;
  std::optional<core::Error> error_;
};

}  // namespace penstock::cli
