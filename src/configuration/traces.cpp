#include "configuration/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "configuration/ledger_trace.h"
#include "connect/sqlite/ledger_requests.h"
#include "options/scalars.h"
#include "workload/synthetic.h"
#include "workload/transform.h"

namespace penstock::configuration {
namespace {

using workload::Workload;

core::Result<Workload> generate(const std::string& name, std::uint64_t seed) {
  if (name == "built-in") return workload::built_in_workload(seed);
  return workload::parse_synthetic(name).and_then(
      [&](const workload::SyntheticSpec& spec) { return workload::make_synthetic(spec, seed); });
}

core::Result<Trace> load(const std::string& name, const TraceOptions& options, std::uint64_t seed) {
  Trace trace;
  core::Result<Workload> loaded;
  if (name == "built-in" || name.starts_with(kSyntheticTrace)) {
    trace.format = name == "built-in" ? name : "synthetic";
    loaded = generate(name, seed);
    if (loaded && (options.read.from > core::Duration{} || options.read.to))
      loaded = workload::crop_window(*loaded, options.read.from, options.read.to);
  } else {
    const bool is_ledger = options.read.format == workload::Format::kLedger ||
                           (options.read.format == workload::Format::kAuto && connect::is_sqlite_file(name));
    workload::ReadOptions read = options.read;
    read.seed = seed;
    loaded = is_ledger ? read_ledger(name, read, &trace.report) : workload::read_workload(name, read, &trace.report);
    trace.format = workload::name_of(trace.report.format);
  }
  if (loaded && options.rate_scale.factor != 1.0) loaded = workload::scale_rate(*loaded, options.rate_scale, seed);
  if (loaded && options.batch_share > 0.0) workload::mark_batch(*loaded, options.batch_share);
  if (!loaded) {
    core::Error error = loaded.error();
    if (error.where.empty()) error.where = name;
    return tl::make_unexpected(std::move(error));
  }
  trace.workload = *std::move(loaded);
  return trace;
}

}  // namespace

core::Result<std::vector<Trace>> load_traces(const TraceOptions& options, std::uint64_t seed) {
  if (options.names.empty())
    return core::invalid_input(
        {}, "there is no trace to read",
        "name a file, synthetic:rate=5,duration=10m, or built-in for the workload that comes along");
  std::vector<Trace> traces;
  for (const std::string& name : options.names) {
    // A description that is given twice generates different requests each time, as two services would.
    auto trace = load(name, options, seed + traces.size());
    if (!trace) return tl::make_unexpected(trace.error());
    traces.push_back(*std::move(trace));
  }
  return traces;
}

core::Result<void> check_session_options(const std::vector<Trace>& traces, const TraceOptions& options) {
  const bool has_sessions = std::any_of(
      traces.begin(), traces.end(), [](const Trace& trace) { return trace.report.format == workload::Format::kWeka; });
  return workload::check_session_options(options.read, has_sessions);
}

std::vector<std::string> gap_warnings(const Workload& workload, std::string_view option, double speed) {
  std::vector<std::string> warnings;
  for (const workload::LongGap& gap : workload.long_gaps) {
    const double length_s = core::to_seconds(gap.length) / speed;
    if (length_s <= core::to_seconds(workload::kLongGap)) continue;
    const auto end = std::chrono::ceil<std::chrono::seconds>(core::from_seconds(core::to_seconds(gap.at) / speed));
    warnings.push_back(
        fmt::format("{}: no request arrives for {:.1f} days, and the run takes as long; correct the time of the row if "
                    "it is wrong, or end before it with {} {}",
                    gap.before, length_s / 86'400.0, option, options::format_duration(end + std::chrono::seconds{1})));
  }
  return warnings;
}

core::Result<Workload> join_traces(std::vector<Trace> traces, std::uint32_t block_tokens) {
  std::vector<Workload> workloads;
  for (Trace& trace : traces) {
    if (trace.workload.block_tokens != block_tokens) {
      auto converted = workload::reblock(trace.workload, block_tokens);
      if (!converted) return converted;
      trace.workload = *std::move(converted);
    }
    workloads.push_back(std::move(trace.workload));
  }
  if (workloads.size() == 1) return std::move(workloads.front());
  return workload::merge(workloads);
}

}  // namespace penstock::configuration
