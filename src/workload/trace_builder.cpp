#include "workload/trace_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "workload/assembly.h"
#include "workload/csv_rows.h"

namespace penstock::workload {
namespace {

constexpr std::size_t kListedModelsMax = 10;
constexpr std::string_view kNarrower = "read a shorter window of it";

// Names appear in reports, JSON and terminals.
bool is_plain_text(std::string_view name) {
  const bool is_clean = std::none_of(name.begin(), name.end(), [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; });
  return is_clean && simdjson::validate_utf8(name.data(), name.size());
}

tl::unexpected<RowFault> fault(std::string what, std::string hint = {}) {
  return tl::make_unexpected(RowFault{std::move(what), std::move(hint), false});
}
tl::unexpected<RowFault> fatal(std::string what, std::string_view hint) {
  return tl::make_unexpected(RowFault{std::move(what), std::string{hint}, true});
}

}  // namespace

TraceBuilder::TraceBuilder(const ReadOptions& options, const RowSource& rows)
    : options_{options}, is_sorted_{rows.is_sorted()} {
  workload_.block_tokens = rows.block_tokens();
  workload_.tenants.clear();
}

bool TraceBuilder::is_chosen(const TraceRow& row) {
  if (row.model.empty()) return options_.model.empty() || options_.model == kAllModels;
  auto known = models_.find(row.model);
  if (known == models_.end()) known = models_.emplace(std::string{row.model}, 0).first;
  ++known->second;
  return options_.model.empty() || options_.model == kAllModels || options_.model == row.model;
}

core::Result<void> TraceBuilder::check_models(const std::string& name) const {
  const bool all = options_.model == kAllModels;
  if (all || (options_.model.empty() ? models_.size() <= 1 : models_.contains(options_.model))) return {};
  std::vector<std::string> counts;
  for (const auto& [model, rows] : models_) {
    if (counts.size() < kListedModelsMax) counts.push_back(fmt::format("{} ({} rows)", quoted_text(model), rows));
  }
  if (!options_.model.empty())
    return core::invalid_input(name, fmt::format("has no request of the model {}", quoted_text(options_.model)),
                               models_.empty() ? std::string{"its rows name no model"}
                                               : fmt::format("its models are {}", fmt::join(counts, ", ")));
  return core::invalid_input(name,
                             fmt::format("has requests of {} models: {}", models_.size(), fmt::join(counts, ", ")),
                             fmt::format("choose one with --trace-model '{}', or --trace-model {}",
                                         printable(models_.begin()->first), kAllModels));
}

tl::expected<bool, RowFault> TraceBuilder::add(const TraceRow& row) {
  if (auto good = check_names(row); !good) return tl::make_unexpected(good.error());
  if (!is_chosen(row)) {
    begin_at(row);
    return true;
  }
  if (auto good = check_time(row); !good) return tl::make_unexpected(good.error());
  auto waits = waits_of(row);
  if (!waits) return tl::make_unexpected(waits.error());
  core::Duration time = row.time;
  if (!row.has_time)
    for (const Wait& wait : *waits)
      time = std::max(time, workload_.requests[wait.previous].arrival.time_since_epoch() + wait.after);
  gap_ = is_sorted_ && first_time_ ? time - last_time_ : core::Duration{};
  first_time_ = std::min(first_time_.value_or(time), time);
  last_time_ = is_sorted_ ? time : std::max(last_time_, time);
  last_time_text_ = row.time_text;

  // Rows without an order are cropped at the end, when the first arrival is known.
  const core::Duration since_first = is_sorted_ ? time - *first_time_ : time;
  if (is_sorted_ && options_.to && since_first >= *options_.to) return false;
  if (is_sorted_ && since_first < options_.from) return true;
  if (workload_.requests.size() == options_.requests_max)
    return fatal(fmt::format("holds more than {} requests", options_.requests_max), kNarrower);
  const std::size_t blocks = row.hash_ids.size() + row.prefix_tokens / workload_.block_tokens;
  if (blocks > kBlockIdsMax - workload_.block_ids.size())
    return fatal(fmt::format("names more than {} blocks", kBlockIdsMax), kNarrower);

  Request request;
  request.arrival = core::kStart + (is_sorted_ ? since_first - options_.from : since_first);
  request.input_tokens = row.input_tokens;
  request.output_tokens = row.output_tokens;
  request.tenant = tenant_number(row.tenant);
  request.session = session_number(row.session);
  request.traffic_class = row.traffic_class;
  request.priority = row.priority;
  request.streamed = row.streamed;
  request.reserved_tokens = row.reserved_tokens;
  append_blocks(row, request);
  if (!row.request_id.empty()) request_ids_[std::string{row.request_id}] = place();
  if (!is_sorted_ && !row.session.empty()) last_turns_[std::string{row.session}] = place();
  workload_.waits.insert(workload_.waits.end(), waits->begin(), waits->end());
  workload_.requests.push_back(request);
  return true;
}

void TraceBuilder::begin_at(const TraceRow& row) {
  if (!row.has_time || (is_sorted_ && first_time_)) return;
  if (!first_time_) {
    last_time_ = row.time;
    last_time_text_ = row.time_text;
  }
  first_time_ = std::min(first_time_.value_or(row.time), row.time);
}

tl::expected<std::vector<Wait>, RowFault> TraceBuilder::waits_of(const TraceRow& row) const {
  std::vector<Wait> waits;
  for (const auto& [id, after] : row.wait_for) {
    const auto previous = request_ids_.find(std::string{id});
    if (previous == request_ids_.end())
      return fault(fmt::format("waits for {}, which is the request_id of no earlier row", quoted_text(id)));
    waits.push_back({place(), previous->second, row.delay + after});
  }
  if (row.wait_for.empty() && row.follows_session) {
    const auto previous = last_turns_.find(std::string{row.session});
    if (previous != last_turns_.end()) waits.push_back({place(), previous->second, row.delay});
  }
  for (const Wait& wait : waits)
    if (wait.after > std::chrono::seconds{kTimeMaxS} - workload_.requests[wait.previous].arrival.time_since_epoch())
      return fault("would arrive after the year 2255");
  if (!row.has_time && waits.empty())
    return fault("has no timestamp, and no earlier row that it waits for",
                 "give the first row of each session its timestamp");
  if (!row.request_id.empty() && request_ids_.contains(std::string{row.request_id}))
    return fault(fmt::format("has the request_id {} of an earlier row", quoted_text(row.request_id)));
  return waits;
}

tl::expected<void, RowFault> TraceBuilder::check_time(const TraceRow& row) const {
  if (!is_sorted_ || !first_time_ || row.time >= last_time_) return {};
  // A session that starts at the trace's start has a relative clock, so that its rows have no arrival time.
  if (row.time <= *first_time_ && !row.session.empty() && !sessions_.contains(std::string{row.session}))
    return fatal(fmt::format("time starts again at {} with session {}: times count from the start of each session, and "
                             "the arrival time of the session is missing",
                             printable(row.time_text), quoted_text(row.session)),
                 "add to each time the arrival of its session, and sort the rows");
  return fault(fmt::format("timestamps decrease from {} to {}", printable(last_time_text_), printable(row.time_text)),
               "sort the rows by time");
}

tl::expected<void, RowFault> TraceBuilder::check_names(const TraceRow& row) {
  if (!is_plain_text(row.tenant))
    return fault(fmt::format("the tenant {} holds control characters or is not UTF-8", quoted_text(row.tenant)));
  return {};
}

void TraceBuilder::append_blocks(const TraceRow& row, Request& request) {
  auto& ids = workload_.block_ids;
  request.first_block = static_cast<std::uint32_t>(ids.size());
  for (const std::uint64_t id : row.hash_ids) ids.push_back(blocks_.of(id));
  if (const std::size_t count = row.prefix_tokens / workload_.block_tokens; count > 0) {
    auto& group = prefix_groups_[std::string{row.prefix_group}];
    while (group.size() < count) group.push_back(blocks_.fresh());
    ids.insert(ids.end(), group.begin(), group.begin() + static_cast<std::ptrdiff_t>(count));
  }
  request.block_count = static_cast<std::uint32_t>(ids.size()) - request.first_block;
}

std::uint32_t TraceBuilder::tenant_number(std::string_view name) {
  name_ = name.empty() ? std::string_view{"default"} : name;
  const auto [place, is_new] = tenants_.try_emplace(name_, static_cast<std::uint32_t>(workload_.tenants.size()));
  if (is_new) workload_.tenants.push_back(name_);
  return place->second;
}

std::uint32_t TraceBuilder::session_number(std::string_view name) {
  if (name.empty()) return kNoSession;
  name_ = name;
  return sessions_.try_emplace(name_, static_cast<std::uint32_t>(sessions_.size())).first->second;
}

void TraceBuilder::sort_and_crop() {
  auto& requests = workload_.requests;
  sort_by_arrival(workload_);
  const core::Instant begin = core::kStart + first_time_.value_or(core::Duration{}) + options_.from;
  const auto before = [](const Request& request, core::Instant at) { return request.arrival < at; };
  const auto first = std::lower_bound(requests.begin(), requests.end(), begin, before);
  const auto last = options_.to ? std::lower_bound(first, requests.end(), begin - options_.from + *options_.to, before)
                                : requests.end();
  if (!workload_.waits.empty()) {
    std::vector<std::uint32_t> places(requests.size(), kNoPlace);
    std::iota(places.begin() + (first - requests.begin()), places.begin() + (last - requests.begin()), 0U);
    const std::vector<Wait> waits = std::exchange(workload_.waits, {});
    append_waits(workload_, waits, places);
  }
  requests.erase(last, requests.end());
  requests.erase(requests.begin(), first);
  for (Request& request : requests) request.arrival = core::kStart + (request.arrival - begin);
}

Workload TraceBuilder::finish() && {
  if (!is_sorted_) sort_and_crop();
  if (workload_.tenants.empty()) workload_.tenants = Workload{}.tenants;
  return std::move(workload_);
}

}  // namespace penstock::workload
