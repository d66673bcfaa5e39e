// `penstock profile`: prints a step-time model as tables, and writes it as a profile.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "capacity/sampled_profile.h"
#include "capacity/token_formula.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "configuration/configuration.h"
#include "options/values.h"
#include "replay/setup.h"
#include "report/format.h"
#include "report/grid.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

constexpr std::uint32_t kLengths[] = {128, 512, 2048, 8192, 32'768};
constexpr std::uint32_t kSequences[] = {1, 4, 16, 64, 256, 1024};
constexpr std::uint64_t kTokensMax = 10'000'000;

struct ProfileOptions {
  simulation::RunOptions run;  // With one pool.
  std::uint64_t input = 2000, output = 200;
  double cached = 0.0;
  std::string json;
};

options::Table table_of(ProfileOptions& made) {
  using options::count, options::share, options::text;
  options::Table table;
  simulation::PoolSpec& pool = made.run.pools.front();
  configuration::add_engine(table, pool.engine, pool.step_time_model);
  configuration::add_slo(table, made.run);
  table.group("Traffic");
  table.add({"", "--input", "prompt tokens of a request, on average"}, count(made.input, 1, kTokensMax))
      .placeholder("TOKENS");
  table.add({"", "--output", "output tokens of a request, on average"}, count(made.output, 1, kTokensMax))
      .placeholder("TOKENS");
  table.add({"", "--cached", "share of the prompt tokens that are found in the cache"}, share(made.cached));
  table.group("Output");
  table.add({"", "--json", "write the profile to this file"}, text(made.json)).placeholder("FILE");
  return table;
}

Usage profile_usage(const options::Table& table) {
  Usage usage;
  usage.command = "profile";
  usage.summary =
      "Shows how long a step-time model's prompts and decode steps take, and what one replica carries within the SLO.\n"
      "With --json it writes the model as a measured profile, which --engine reads.";
  usage.flags = flags_of(table);
  usage.notes =
      "Examples:\n"
      "  penstock profile --engine roofline:llama-3.1-8b,h100 --slo ttft=1s,itl=30ms --input 4000\n"
      "  penstock profile --engine polynomial --json engine.json\n"
      "  penstock replay trace.csv --engine engine.json\n";
  return usage;
}

struct ProfileRequest {
  simulation::RunOptions options;
  capacity::TrafficShape traffic;
  capacity::EngineLimits limits;

  [[nodiscard]] const engine::StepTimeModel& model() const { return *options.pools.front().step_time; }
};

core::Result<ProfileRequest> make_request(const ProfileOptions& made) {
  if (made.cached >= 1.0) return core::invalid_input("--cached", "must be below 1", "one token at least is computed");
  ProfileRequest request;
  request.traffic = {static_cast<double>(made.input), static_cast<double>(made.output), made.cached};
  auto options = replay::make_run_options(made.run);
  if (!options) return tl::make_unexpected(options.error());
  request.options = *std::move(options);
  const engine::EngineConfig& engine = request.options.pools.front().engine;
  request.limits = {static_cast<double>(engine.max_sequences), static_cast<double>(engine.max_batched_tokens),
                    static_cast<double>(engine.block_tokens) * engine.kv_blocks};
  return request;
}

// ---- the table ------------------------------------------------------------------------------------------------------

using Rows = std::vector<std::vector<std::string>>;
constexpr std::size_t kIndent = 2;

std::vector<std::uint32_t> lengths(const ProfileRequest& request) {
  std::vector<std::uint32_t> fitting;
  for (const std::uint32_t length : kLengths)
    if (length <= request.limits.kv_tokens) fitting.push_back(length);
  return fitting;
}

std::string prompts_table(const ProfileRequest& request) {
  Rows rows{{"prompt tokens"}, {"TTFT"}};
  for (const std::uint32_t length : lengths(request)) {
    rows[0].push_back(report::format_count(length));
    rows[1].push_back(report::format_milliseconds(capacity::lone_ttft_ms(request.model(), request.limits, length)));
  }
  return "One prompt on an idle engine\n" + report::aligned(rows, kIndent);
}

std::string decode_table(const ProfileRequest& request) {
  Rows rows{{"ITL of sequences"}};
  for (const std::uint32_t length : lengths(request)) rows[0].push_back(report::format_count(length) + " tokens");
  for (const std::uint32_t sequences : kSequences) {
    if (sequences > request.limits.max_sequences) break;
    rows.push_back({report::format_count(sequences)});
    for (const std::uint32_t length : lengths(request)) {
      const bool fits = static_cast<double>(sequences) * length <= request.limits.kv_tokens;
      rows.back().push_back(fits ? report::format_milliseconds(
                                       capacity::decode_step_ms(request.model(), request.limits, sequences, length))
                                 : "");
    }
  }
  return "A step that only decodes, by sequences at once and their length; empty: more than the KV cache holds\n" +
         report::aligned(rows, kIndent);
}

std::string capacity_table(const ProfileRequest& request) {
  using report::format_quantity;
  Rows rows{{"replica", "requests/s", "C_in tokens/s", "C_out tokens/s", "decode at once", "p95 TTFT", "p95 ITL"}};
  for (const signals::Role role : {signals::Role::kAggregated, signals::Role::kPrefill, signals::Role::kDecode}) {
    capacity::CapacityOptions options;
    options.role = role;
    const auto found =
        capacity::token_capacity(request.model(), request.traffic, request.limits, request.options.slo, options);
    rows.push_back({signals::to_string(role)});
    if (!found) {
      rows.back().insert(rows.back().end(), {"none", "", "", "", "", ""});
      continue;
    }
    const auto milliseconds = [](double ms) { return ms > 0.0 ? report::format_milliseconds(ms) : std::string{}; };
    rows.back().insert(rows.back().end(),
                       {format_quantity(found->requests_per_s), format_quantity(found->tokens.input_tokens_per_s),
                        format_quantity(found->tokens.output_tokens_per_s),
                        found->concurrency > 0.0 ? format_quantity(found->concurrency) : "",
                        milliseconds(found->ttft_ms), milliseconds(found->itl_ms)});
  }
  return fmt::format(
             "What a replica carries within TTFT {} and ITL {}: {} prompt tokens ({} cached), {} output tokens\n",
             options::format_duration(request.options.slo.ttft), options::format_duration(request.options.slo.itl),
             report::format_count(static_cast<std::uint64_t>(request.traffic.input_tokens)),
             report::format_share(request.traffic.cached_share),
             report::format_count(static_cast<std::uint64_t>(request.traffic.output_tokens))) +
         report::aligned(rows, kIndent);
}

std::string page(const ProfileRequest& request) {
  const std::string engine =
      fmt::format("{}: KV cache of {} tokens, {} sequences at once, {} tokens an iteration\n\n",
                  report::printable(request.model().description()),
                  report::format_count(static_cast<std::uint64_t>(request.limits.kv_tokens)),
                  report::format_count(static_cast<std::uint64_t>(request.limits.max_sequences)),
                  report::format_count(static_cast<std::uint64_t>(request.limits.max_batched_tokens)));
  const std::string assumed = replay::kv_assumptions(request.options.pools.front());
  return engine + (assumed.empty() ? "" : assumed + "\n\n") + prompts_table(request) + "\n" + decode_table(request) +
         "\n" + capacity_table(request);
}

}  // namespace

int profile(const Arguments& arguments) {
  ProfileOptions made;
  const options::Table table = table_of(made);
  const auto parsed = parse_arguments(profile_usage(table), arguments);
  if (!parsed) return parsed.error();
  auto read = read_flags(table, *parsed);
  if (!read) return read.error();
  simulation::PoolSpec& pool = made.run.pools.front();
  configuration::check_engine(pool.engine, {}, *read);
  configuration::settle_kv_blocks(pool.engine, pool.step_time_model, "engine.kv_blocks", *read);
  if (!read->good()) return report_error(read->problems());
  const auto request = make_request(made);
  if (!request) return report_input_error(request.error());
  if (!made.json.empty()) {
    const engine::EngineProfile sampled = capacity::sample_profile(request->model(), request->limits);
    if (sampled.prefill.empty() || sampled.decode.empty())
      return report_input_error(
          {core::ErrorCode::kInvalidInput, "--kv-blocks", "is too small a KV cache to profile", {}});
    const auto written = report::write_file(made.json, capacity::profile_json(sampled, request->model().description()));
    if (!written) return report_error(written.error());
  }
  return print(page(*request));
}

}  // namespace penstock::cli
