#include "report/decision_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "decision/fields.h"
#include "report/document.h"
#include "report/format.h"

namespace penstock::report {

using Json = nlohmann::ordered_json;
using decision::DecisionRecord;
using decision::Field;
using decision::FieldValue;
using decision::Rendering;

std::vector<DecisionRecord> decision_records(const std::vector<decision::RunResult>& results,
                                             const std::vector<PoolInfo>& pools) {
  const auto place = [&](const DecisionRecord& record) {
    return std::find_if(pools.begin(), pools.end(), [&](const PoolInfo& pool) { return pool.name == record.pool; }) -
           pools.begin();
  };
  std::vector<DecisionRecord> records;
  for (const decision::RunResult& result : results) {
    const auto from = static_cast<std::ptrdiff_t>(records.size());
    records.insert(records.end(), result.decisions.begin(), result.decisions.end());
    records.insert(records.end(), result.holds.begin(), result.holds.end());
    std::stable_sort(records.begin() + from, records.end(), [&](const DecisionRecord& a, const DecisionRecord& b) {
      return a.at != b.at ? a.at < b.at : place(a) < place(b);
    });
  }
  return records;
}

namespace {

constexpr std::string_view kHint = "write it with `penstock replay --decision-log`";

// Members of an object of the log. Keeps the first error: a key that is missing, or a value of another type.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("", "must be an object");
  }

  [[nodiscard]] bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  std::string text(const char* key) {
    const Json* value = find(key, &Json::is_string, "must be text");
    return value == nullptr ? std::string{} : value->get<std::string>();
  }
  const Json& object(const char* key) {
    static const Json kNone = Json::object();
    const Json* value = find(key, &Json::is_object, "must be an object");
    return value == nullptr ? kNone : *value;
  }
  const Json& list(const char* key) {
    static const Json kNone = Json::array();
    const Json* value = find(key, &Json::is_array, "must be a list");
    return value == nullptr ? kNone : *value;
  }
  bool flag(const char* key) {
    const Json* value = find(key, &Json::is_boolean, "must be true or false");
    return value != nullptr && value->get<bool>();
  }
  double figure(const char* key) {  // Null is an unknown figure.
    if (has(key) && json_[key].is_null()) return std::numeric_limits<double>::quiet_NaN();
    const Json* value = find(key, &Json::is_number, "must be a number");
    return value == nullptr ? 0.0 : value->get<double>();
  }
  std::uint32_t replicas(const char* key) {
    const Json* value = find(key, nullptr, "");
    return value == nullptr ? 0 : count(*value, key);
  }
  std::vector<std::pair<std::string, std::uint32_t>> fleet(const char* key) {
    std::vector<std::pair<std::string, std::uint32_t>> replicas;
    if (const Json* value = find(key, &Json::is_object, "must be an object of replicas by pool"))
      for (const auto& item : value->items()) replicas.emplace_back(item.key(), count(item.value(), key));
    return replicas;
  }

  [[nodiscard]] const std::optional<core::Error>& error() const { return error_; }

 private:
  const Json* find(const char* key, bool (Json::*is_type)() const noexcept, const char* what) {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    if (found != json_.end() && (is_type == nullptr || ((*found).*is_type)())) return &*found;
    fail(key, found == json_.end() ? "is missing" : what);
    return nullptr;
  }
  std::uint32_t count(const Json& value, const char* key) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= UINT32_MAX)
      return static_cast<std::uint32_t>(value.get<std::uint64_t>());
    fail(key, "must be a count of replicas");
    return 0;
  }
  void fail(const char* key, const char* what) {
    if (error_) return;
    error_ = core::Error{core::ErrorCode::kInvalidInput, where_ + (*key == '\0' ? "" : std::string{": "} + key), what,
                         std::string{kHint}};
  }

  const Json& json_;
  std::string where_;
  std::optional<core::Error> error_;
};

std::string path(const std::string& where, const char* list, std::size_t index) {
  return fmt::format("{}: {}[{}]", where, list, index);
}

// Empty if the field is missing.
FieldValue read_value(Fields& fields, const Field& field) {
  const std::string key{field.name};
  if (!field.always && !fields.has(key.c_str())) return {};
  switch (field.kind) {
    case Field::Kind::kText: return fields.text(key.c_str());
    case Field::Kind::kCount: return fields.replicas(key.c_str());
    default: return fields.figure(key.c_str());
  }
}

core::Result<void> read_fields(const Json& json, const std::string& where, DecisionRecord& record) {
  Fields top{json, where};
  for (const Field& field : decision::fields()) {
    if (!field.is_in(Rendering::kLog) || field.set == nullptr) continue;
    const std::string group{field.group};
    if (!group.empty() && !top.has(group.c_str())) continue;
    Fields inner{group.empty() ? json : top.object(group.c_str()), group.empty() ? where : where + ": " + group};
    const FieldValue value = top.error() ? FieldValue{} : read_value(inner, field);
    if (const auto& error = top.error() ? top.error() : inner.error()) return tl::make_unexpected(*error);
    if (std::holds_alternative<std::monostate>(value) || field.set(record, value)) continue;
    const std::string at = where + ": " + field.column();
    if (field.kind == Field::Kind::kTime)
      return core::invalid_input(at, "must be seconds since the start, from 0 to 100 years", std::string{kHint});
    return core::invalid_input(at, fmt::format("unknown name '{}'", printable(std::get<std::string>(value))),
                               "read the log with the version of penstock that wrote it");
  }
  return {};
}

core::Result<DecisionRecord> read_record(const Json& json, const std::string& where) {
  DecisionRecord record;
  if (auto read = read_fields(json, where, record); !read) return tl::make_unexpected(std::move(read.error()));
  Fields fields{json, where};
  const Json& evidence = fields.list("evidence");
  const Json& candidates = fields.list("candidates");
  if (fields.error()) return tl::make_unexpected(*fields.error());
  for (const Json& item : evidence) {
    Fields inner{item, path(where, "evidence", record.evidence.size())};
    record.evidence.push_back({inner.text("name"), inner.figure("value"), inner.text("unit")});
    if (inner.error()) return tl::make_unexpected(*inner.error());
  }
  for (const Json& item : candidates) {
    Fields inner{item, path(where, "candidates", record.candidates.size())};
    decision::Candidate tried;
    std::vector<std::string> pools;
    for (auto& [pool, replicas] : inner.fleet("replicas")) {
      pools.push_back(std::move(pool));
      tried.replicas.push_back(replicas);
    }
    tried.slo_attainment = inner.figure("slo_attainment");
    tried.ttft_attainment = inner.figure("ttft_attainment");
    tried.itl_attainment = inner.figure("itl_attainment");
    tried.chosen = inner.flag("chosen");
    if (inner.error()) return tl::make_unexpected(*inner.error());
    if (record.candidates.empty()) record.pools = pools;
    if (pools != record.pools)
      return core::invalid_input(path(where, "candidates", record.candidates.size()),
                                 "names other pools than the candidates before it");
    record.candidates.push_back(std::move(tried));
  }
  return record;
}

}  // namespace

std::string to_decision_jsonl(std::span<const DecisionRecord> entries) {
  std::string text;
  const JsonStyle one_line{.pretty = false, .significant_digits = {}};
  for (const DecisionRecord& entry : entries)
    text += write_json(decision_json(entry, Rendering::kLog), one_line) + "\n";
  return text;
}

core::Result<DecisionLog> parse_decision_jsonl(std::string_view text, std::string_view name) {
  DecisionLog log;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    const bool has_end = end < text.size();
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", name, line);
    if (row.size() > kDecisionLineBytesMax)
      return core::invalid_input(where, fmt::format("is longer than {} bytes", kDecisionLineBytesMax),
                                 "is it a decision log?");
    if (log.records.size() == kDecisionEntriesMax)
      return core::invalid_input(where, fmt::format("is more than {} entries", kDecisionEntriesMax), "split the log");
    const Json json = Json::parse(row, nullptr, false);
    if (json.is_discarded() && !has_end && row.front() == '{') {
      log.cut_line = line;
      break;
    }
    if (json.is_discarded())
      return core::invalid_input(where, "is not a JSON object", "a decision log has one on each line");
    if (json.is_object() && json.contains("error")) {
      ++log.errors;
      continue;
    }
    auto entry = read_record(json, where);
    if (!entry) return tl::make_unexpected(std::move(entry.error()));
    log.records.push_back(*std::move(entry));
  }
  return log;
}

}  // namespace penstock::report
