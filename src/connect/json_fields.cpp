#include "connect/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/digits.h"

namespace penstock::connect {

using Json = nlohmann::json;

namespace {

constexpr int kNestingMax = 16;

// Rejects input that a standard parser accepts.
class Strictness {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kNestingMax) what_ = fmt::format("is nested more than {} levels deep", kNestingMax);
    if (event == Json::parse_event_t::object_start) names_.emplace_back();
    if (event == Json::parse_event_t::object_end && !names_.empty()) names_.pop_back();
    if (event == Json::parse_event_t::key && !names_.empty()) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!names_.back().insert(name).second && what_.empty()) what_ = fmt::format("has \"{}\" twice", printable(name));
    }
    return what_.empty();  // Values that follow an error are discarded.
  }

  [[nodiscard]] const std::string& what() const { return what_; }

 private:
  static std::string printable(std::string name) {
    constexpr std::size_t kShown = 60;
    for (char& c : name)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return name.substr(0, kShown);
  }

  std::vector<std::set<std::string>> names_;
  std::string what_;
};

}  // namespace

core::Result<Json> parse_object(std::string_view text, const std::string& file) {
  Strictness strictness;
  Json root;
  try {
    root = Json::parse(
        text, [&](int depth, Json::parse_event_t event, Json& parsed) { return strictness(depth, event, parsed); });
  } catch (const Json::parse_error& error) {
    return core::invalid_input(file, fmt::format("invalid JSON at byte {}", error.byte));
  } catch (const Json::exception&) {  // The number does not fit into a double.
    return core::invalid_input(file, "invalid JSON: a number is out of range");
  }
  if (!strictness.what().empty()) return core::invalid_input(file, strictness.what());
  if (!root.is_object()) return core::invalid_input(file, fmt::format("must be an object, is {}", root.type_name()));
  return root;
}

std::optional<std::int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) > core::kWholeMax) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

JsonFields::JsonFields(const Json& object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {
  if (!object_.is_object())
    error_ = core::Error{core::ErrorCode::kInvalidInput,
                         path_.empty() ? file_ : fmt::format("{}: {}", file_, path_),
                         fmt::format("must be an object, is {}", object_.type_name()),
                         {}};
}

bool JsonFields::has(const char* name) const {
  const auto found = object_.is_object() ? object_.find(name) : object_.end();
  return found != object_.end() && !found->is_null();
}

std::string JsonFields::path_of(const std::string& name) const {
  return path_.empty() ? name : fmt::format("{}.{}", path_, name);
}

void JsonFields::fail(const std::string& name, std::string what, std::string hint) {
  if (!error_)
    error_ = core::Error{core::ErrorCode::kInvalidInput, fmt::format("{}: {}", file_, path_of(name)), std::move(what),
                         std::move(hint)};
}

const Json* JsonFields::take(const char* name, const char* kind) {
  if (error_) return nullptr;
  if (has(name)) return &object_.at(name);
  fail(name, fmt::format("is missing; it must be {}", kind));
  return nullptr;
}

std::string JsonFields::text(const char* name, std::size_t bytes_max) {
  const Json* const value = take(name, "a text");
  if (value == nullptr) return {};
  if (!value->is_string()) return fail(name, fmt::format("must be a text, is {}", value->type_name())), std::string{};
  const auto& text = value->get_ref<const std::string&>();
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return fail(name, "has a control character"), std::string{};
  if (text.size() > bytes_max) return fail(name, fmt::format("is longer than {} bytes", bytes_max)), std::string{};
  return text;
}

bool JsonFields::flag(const char* name) {
  const Json* const value = take(name, "true or false");
  if (value == nullptr) return false;
  if (!value->is_boolean()) return fail(name, fmt::format("must be true or false, is {}", value->type_name())), false;
  return value->get<bool>();
}

std::int64_t JsonFields::integer(const char* name, std::int64_t min, std::int64_t max) {
  const Json* const value = take(name, "a whole number");
  if (value == nullptr) return 0;
  const std::optional<std::int64_t> number = whole_number(*value);
  if (!number && !value->is_number_unsigned())
    return fail(name, fmt::format("must be a whole number from {} to {}, is {}", min, max,
                                  value->is_number() ? value->dump() : value->type_name())),
           std::int64_t{0};
  if (!number || *number < min || *number > max)
    return fail(name, fmt::format("must be {} to {}, is {}", min, max, value->dump())), std::int64_t{0};
  return *number;
}

double JsonFields::number(const char* name, double min, double max) {
  const Json* const value = take(name, "a number");
  if (value == nullptr) return 0.0;
  if (!value->is_number()) return fail(name, fmt::format("must be a number, is {}", value->type_name())), 0.0;
  const double number = value->get<double>();
  if (!(number >= min && number <= max))
    return fail(name, fmt::format("must be {} to {}, is {}", min, max, value->dump())), 0.0;
  return number;
}

const Json* JsonFields::list(const char* name, std::size_t most) {
  const Json* const value = take(name, "a list");
  if (value == nullptr) return nullptr;
  if (!value->is_array()) return fail(name, fmt::format("must be a list, is {}", value->type_name())), nullptr;
  if (value->size() > most) return fail(name, fmt::format("has {} elements; {} at most", value->size(), most)), nullptr;
  return value;
}

}  // namespace penstock::connect
