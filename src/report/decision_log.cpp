#include "report/decision_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "report/document.h"

namespace penstock::report {

using Json = nlohmann::ordered_json;
using signals::CandidateNote;
using signals::DecisionEntry;
using signals::DecisionNote;
using signals::EvidenceValue;

std::vector<DecisionEntry> decision_entries(const std::vector<signals::RunResult>& results,
                                            const std::vector<PoolInfo>& pools) {
  std::vector<std::string> names;
  for (const PoolInfo& pool : pools) names.push_back(pool.name);
  const auto place = [&](const DecisionNote& note) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), note.pool) - names.begin());
  };
  std::vector<DecisionEntry> entries;
  for (const signals::RunResult& result : results) {
    std::vector<const DecisionNote*> notes;
    for (const DecisionNote& note : result.decisions) notes.push_back(&note);
    for (const DecisionNote& note : result.holds) notes.push_back(&note);
    std::stable_sort(notes.begin(), notes.end(), [&](const DecisionNote* a, const DecisionNote* b) {
      return a->at != b->at ? a->at < b->at : place(*a) < place(*b);
    });
    for (const DecisionNote* note : notes)
      entries.push_back({result.policy, *note, note->candidates.empty() ? std::vector<std::string>{} : names,
                         what_would_change(*note, place(*note))});
  }
  return entries;
}

namespace {

constexpr std::array<std::pair<const char*, std::optional<double> signals::OutlookNote::*>, 5> kOutlookFigures = {
    {{"requests_per_s", &signals::OutlookNote::requests_per_s},
     {"input_tokens", &signals::OutlookNote::input_tokens},
     {"output_tokens", &signals::OutlookNote::output_tokens},
     {"error", &signals::OutlookNote::error},
     {"naive_error", &signals::OutlookNote::naive_error}}};

// Without a minus zero, which would be read back as a plain one.

Json to_json(const CandidateNote& tried, const std::vector<std::string>& pools) {
  Json replicas = Json::object();
  for (std::size_t i = 0; i < tried.replicas.size(); ++i)
    replicas[i < pools.size() ? pools[i] : fmt::format("pool {}", i)] = tried.replicas[i];
  return {{"replicas", replicas},
          {"slo_attainment", json_number(tried.slo_attainment)},
          {"ttft_attainment", json_number(tried.ttft_attainment)},
          {"itl_attainment", json_number(tried.itl_attainment)},
          {"chosen", tried.chosen}};
}

// The figures that are known.
Json to_json(const signals::OutlookNote& outlook) {
  Json json = Json::object();
  for (const auto& [key, field] : kOutlookFigures)
    if (outlook.*field) json[key] = json_number(*(outlook.*field));
  return json;
}

// What not every policy says stands at the end of its line, and only where it was said.
void add_what_was_said(Json& json, const DecisionNote& note) {
  const auto add = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  add("cause", note.cause);
  add("diagnosis", note.diagnosis);
  add("phase", note.phase);
  if (note.next_phase_target) json["next_phase_target"] = *note.next_phase_target;
  if (note.outlook && note.outlook->known()) json["outlook"] = to_json(*note.outlook);
}

Json to_json(const DecisionEntry& entry) {
  const DecisionNote& note = entry.note;
  Json evidence = Json::array(), candidates = Json::array();
  for (const EvidenceValue& item : note.evidence)
    evidence.push_back({{"name", item.name}, {"value", json_number(item.value)}, {"unit", item.unit}});
  for (const CandidateNote& tried : note.candidates) candidates.push_back(to_json(tried, entry.pools));
  Json json = {{"at_s", core::to_seconds(note.at)}, {"policy", entry.policy}, {"pool", note.pool},
               {"current", note.current},           {"target", note.target},  {"reason", note.reason},
               {"limited_by", note.limited_by},     {"evidence", evidence},   {"candidates", candidates},
               {"would_change", entry.would_change}};
  add_what_was_said(json, note);
  return json;
}

// The first key that is missing or of another kind; everything is read before it is asked for.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) wrong("", "must be an object");
  }

  std::string text(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    wrong(key, "must be text");
    return {};
  }
  [[nodiscard]] bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  const Json& object(const char* key) {
    static const Json kNone = Json::object();
    const Json* value = find(key);
    if (value == nullptr || value->is_object()) return value == nullptr ? kNone : *value;
    wrong(key, "must be an object");
    return kNone;
  }
  std::uint32_t replicas(const char* key) {
    const Json* value = find(key);
    return value == nullptr ? 0 : count(*value, key);
  }
  double figure(const char* key) {  // null is a figure that nobody knew
    const Json* value = find(key);
    if (value == nullptr || value->is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value->is_number()) wrong(key, "must be a number");
    return value->is_number() ? value->get<double>() : 0.0;
  }
  bool flag(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) wrong(key, "must be true or false");
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  core::Instant instant(const char* key) {
    constexpr double kLatest_s = 100.0 * 365 * 24 * 3600;
    const double seconds = figure(key);
    if (seconds >= 0.0 && seconds <= kLatest_s) return core::kStart + core::from_seconds(seconds);
    wrong(key, "must be seconds since the start, from 0 to 100 years");
    return core::kStart;
  }
  const Json& list(const char* key) {
    static const Json kNone = Json::array();
    const Json* value = find(key);
    if (value == nullptr || value->is_array()) return value == nullptr ? kNone : *value;
    wrong(key, "must be a list");
    return kNone;
  }
  std::vector<std::pair<std::string, std::uint32_t>> fleet(const char* key) {
    std::vector<std::pair<std::string, std::uint32_t>> replicas;
    const Json* value = find(key);
    if (value == nullptr) return replicas;
    if (!value->is_object()) wrong(key, "must be an object of replicas by pool");
    for (const auto& item : value->items()) replicas.emplace_back(item.key(), count(item.value(), key));
    return replicas;
  }

  [[nodiscard]] const std::optional<core::Error>& error() const { return error_; }

 private:
  const Json* find(const char* key) {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    wrong(key, "is missing");
    return nullptr;
  }
  std::uint32_t count(const Json& value, const char* key) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= UINT32_MAX)
      return static_cast<std::uint32_t>(value.get<std::uint64_t>());
    wrong(key, "must be a count of replicas");
    return 0;
  }
  void wrong(const char* key, const char* what) {
    if (error_) return;
    error_ = core::Error{core::ErrorCode::kInvalidInput, where_ + (*key == '\0' ? "" : std::string{": "} + key), what,
                         "write it with `penstock replay --decision-log`"};
  }

  const Json& json_;
  std::string where_;
  std::optional<core::Error> error_;
};

std::string path(const std::string& where, const char* list, std::size_t index) {
  return fmt::format("{}: {}[{}]", where, list, index);
}

// A figure that is null was not finite when it was written, which is as good as not known.
core::Result<signals::OutlookNote> read_outlook(const Json& json, const std::string& where) {
  Fields fields{json, where + ": outlook"};
  signals::OutlookNote outlook;
  for (const auto& [key, field] : kOutlookFigures) {
    if (!fields.has(key)) continue;
    const double value = fields.figure(key);
    if (std::isfinite(value)) outlook.*field = value;
  }
  if (fields.error()) return tl::make_unexpected(*fields.error());
  return outlook;
}

core::Result<void> read_what_was_said(const Json& json, const std::string& where, DecisionNote& note) {
  Fields fields{json, where};
  for (const auto& [key, text] :
       {std::pair{"cause", &note.cause}, std::pair{"diagnosis", &note.diagnosis}, std::pair{"phase", &note.phase}})
    if (fields.has(key)) *text = fields.text(key);
  if (fields.has("next_phase_target")) note.next_phase_target = fields.replicas("next_phase_target");
  const Json* outlook = fields.has("outlook") ? &fields.object("outlook") : nullptr;
  if (fields.error()) return tl::make_unexpected(*fields.error());
  if (outlook == nullptr) return {};
  auto read = read_outlook(*outlook, where);
  if (!read) return tl::make_unexpected(std::move(read.error()));
  if (read->known()) note.outlook = *read;
  return {};
}

core::Result<DecisionEntry> read_entry(const Json& json, const std::string& where) {
  Fields fields{json, where};
  DecisionEntry entry;
  entry.policy = fields.text("policy");
  DecisionNote& note = entry.note;
  note.at = fields.instant("at_s");
  note.pool = fields.text("pool");
  note.current = fields.replicas("current");
  note.target = fields.replicas("target");
  note.reason = fields.text("reason");
  note.limited_by = fields.text("limited_by");
  entry.would_change = fields.text("would_change");
  const Json& evidence = fields.list("evidence");
  const Json& candidates = fields.list("candidates");
  if (fields.error()) return tl::make_unexpected(*fields.error());
  if (auto said = read_what_was_said(json, where, note); !said) return tl::make_unexpected(std::move(said.error()));

  for (const Json& item : evidence) {
    Fields inner{item, path(where, "evidence", note.evidence.size())};
    note.evidence.push_back({inner.text("name"), inner.figure("value"), inner.text("unit")});
    if (inner.error()) return tl::make_unexpected(*inner.error());
  }
  for (const Json& item : candidates) {
    Fields inner{item, path(where, "candidates", note.candidates.size())};
    CandidateNote tried;
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
    if (note.candidates.empty()) entry.pools = pools;
    if (pools != entry.pools)
      return core::invalid_input(path(where, "candidates", note.candidates.size()),
                                 "names other pools than the candidates before it");
    note.candidates.push_back(std::move(tried));
  }
  return entry;
}

}  // namespace

std::string to_decision_jsonl(std::span<const DecisionEntry> entries) {
  std::string text;
  const JsonStyle one_line{.pretty = false, .significant_digits = {}};
  for (const DecisionEntry& entry : entries) text += write_json(to_json(entry), one_line) + "\n";
  return text;
}

core::Result<std::vector<DecisionEntry>> parse_decision_jsonl(std::string_view text, std::string_view name) {
  std::vector<DecisionEntry> entries;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", name, line);
    if (row.size() > kDecisionLineBytesMax)
      return core::invalid_input(where, fmt::format("is longer than {} bytes", kDecisionLineBytesMax),
                                 "is it a decision log?");
    if (entries.size() == kDecisionEntriesMax)
      return core::invalid_input(where, fmt::format("is more than {} entries", kDecisionEntriesMax), "split the log");
    const Json json = Json::parse(row, nullptr, false);
    if (json.is_discarded())
      return core::invalid_input(where, "is not a JSON object", "a decision log has one on each line");
    auto entry = read_entry(json, where);
    if (!entry) return tl::make_unexpected(std::move(entry.error()));
    entries.push_back(*std::move(entry));
  }
  return entries;
}

}  // namespace penstock::report
