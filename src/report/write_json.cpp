// The writer of write_json. nlohmann's writer puts each number of a series on a separate line.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/document.h"

namespace penstock::report {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kInlineMembers = 8;  // A flat object with more members has one line for each.

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  // The recursion is at most five levels deep, as the documents are.
  void write(const Json& json, std::size_t depth) {
    if (json.is_object() || json.is_array()) {
      container(json, depth);
    } else if (json.is_number_float()) {
      floating(json.get<double>());
    } else {
      // Names may have any bytes: invalid UTF-8 becomes U+FFFD.
      text_ += json.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void container(const Json& json, std::size_t depth) {
    const bool one_line = !style_.pretty || json.empty() || is_flat(json);
    text_ += json.is_object() ? '{' : '[';
    bool first = true;
    for (const auto& item : json.items()) {
      if (!first) text_ += one_line && style_.pretty ? ", " : ",";
      first = false;
      if (!one_line) new_line(depth + 1);
      if (json.is_object()) {
        text_ += Json(item.key()).dump(-1, ' ', false, Json::error_handler_t::replace);
        text_ += style_.pretty ? ": " : ":";
      }
      write(item.value(), depth + 1);
    }
    if (!one_line) new_line(depth);
    text_ += json.is_object() ? '}' : ']';
  }

  static bool is_flat(const Json& json) {
    if (json.is_object() && json.size() > kInlineMembers) return false;
    return std::none_of(json.begin(), json.end(), [&](const Json& value) {
      // Sentences are easier to read on separate lines.
      return value.is_structured() || (json.is_array() && value.is_string());
    });
  }

  void floating(double value) {
    if (!std::isfinite(value)) {
      text_ += "null";
    } else if (style_.significant_digits) {
      // Large numbers keep all digits before the point, such as times in seconds.
      const bool large = std::abs(value) >= std::pow(10.0, *style_.significant_digits);
      text_ += large ? fmt::format("{:.0f}", value) : fmt::format("{:.{}g}", value, *style_.significant_digits);
    } else {
      fmt::format_to(std::back_inserter(text_), "{}", value);
    }
  }

  void new_line(std::size_t depth) {
    text_ += '\n';
    text_.append(2 * depth, ' ');
  }

  const JsonStyle& style_;
  std::string text_;
};

}  // namespace

std::string write_json(const Json& document, const JsonStyle& style) {
  Writer writer{style};
  writer.write(document, 0);
  return writer.take();
}

}  // namespace penstock::report
