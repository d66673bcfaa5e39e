// `penstock profile`: prints a step-time model or a live endpoint as tables, and writes it as a profile.
#include <algorithm>
#include <array>

#include "capacity/sampled_profile.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/profile_endpoint.h"
#include "cli/profile_page.h"
#include "configuration/configuration.h"
#include "options/values.h"
#include "replay/setup.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

constexpr std::uint64_t kTokensMax = 10'000'000;

struct ProfileOptions {
  simulation::RunOptions run;  // With one pool.
  std::uint64_t input = 2000, output = 200;
  double cached = 0.0;
  std::string json;
  EndpointProfileOptions endpoint;
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
  add_endpoint_profile(table, made.endpoint);
  table.group("Output");
  table.add({"", "--json", "write the profile to this file"}, text(made.json)).placeholder("FILE");
  return table;
}

Usage profile_usage(const options::Table& table) {
  Usage usage;
  usage.command = "profile";
  usage.summary =
      "Shows how long prompts and decode steps take, and what one replica carries within the SLO: of a step-time "
      "model,\n"
      "or of a live OpenAI-compatible endpoint, which it measures. With --json it writes a profile that --engine "
      "reads.";
  usage.operand = "[URL]";
  usage.flags = flags_of(table);
  usage.notes =
      "An endpoint must be one idle replica. With --json, measurements are kept in FILE.partial until they are "
      "complete,\n"
      "and the same command continues them.\n\n"
      "Examples:\n"
      "  penstock profile http://127.0.0.1:8000 --json engine.json --slo ttft=1s,itl=30ms --input 4000\n"
      "  penstock profile --engine roofline:llama-3.1-8b,h100 --slo ttft=1s,itl=30ms --input 4000\n"
      "  penstock profile --engine polynomial --json engine.json\n"
      "  penstock replay trace.csv --engine engine.json\n";
  return usage;
}

core::Result<ProfiledReplica> make_replica(const ProfileOptions& made) {
  if (made.cached >= 1.0) return core::invalid_input("--cached", "must be below 1", "one token at least is computed");
  ProfiledReplica replica;
  replica.traffic = {static_cast<double>(made.input), static_cast<double>(made.output), made.cached};
  auto options = replay::make_run_options(made.run);
  if (!options) return tl::make_unexpected(options.error());
  replica.slo = options->slo;
  replica.model = options->pools.front().step_time;
  const engine::EngineConfig& engine = options->pools.front().engine;
  replica.limits = {static_cast<double>(engine.max_sequences), static_cast<double>(engine.max_batched_tokens),
                    static_cast<double>(engine.block_tokens) * engine.kv_blocks};
  replica.assumptions = replay::kv_assumptions(options->pools.front());
  return replica;
}

// Flags that only a model or only an endpoint reads.
core::Result<void> check_flags(const Parsed& parsed, const options::Table& table, bool has_url) {
  constexpr std::array kOfBoth{"--block-size", "--kv-blocks", "--max-sequences", "--max-batched-tokens"};
  for (const options::Option& option : table.options()) {
    const std::string_view flag = option.names.flag;
    if (!parsed.has(flag)) continue;
    if (!has_url && option.group.starts_with("Endpoint"))
      return core::invalid_input(std::string{flag}, "needs the URL of an endpoint");
    if (has_url && option.group == "Engine" && std::find(kOfBoth.begin(), kOfBoth.end(), flag) == kOfBoth.end())
      return core::invalid_input(std::string{flag}, "does not go together with the URL of an endpoint");
  }
  return {};
}

GivenLimits limits_given(const Parsed& parsed, const capacity::EngineLimits& limits) {
  GivenLimits given;
  if (parsed.has("--max-sequences")) given.max_sequences = limits.max_sequences;
  if (parsed.has("--max-batched-tokens")) given.max_batched_tokens = limits.max_batched_tokens;
  if (parsed.has("--kv-blocks")) given.kv_tokens = limits.kv_tokens;
  return given;
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
  configuration::settle_engine_limits(pool.engine, pool.step_time_model, {"engine.kv_blocks", "engine.max_sequences"},
                                      *read);
  if (!read->good()) return report_error(read->problems());
  if (const auto checked = check_flags(*parsed, table, !parsed->operands.empty()); !checked)
    return report_input_error(checked.error());
  const auto replica = make_replica(made);
  if (!replica) return report_input_error(replica.error());
  if (!parsed->operands.empty())
    return profile_endpoint(parsed->operands.front(), made.endpoint, *parsed, limits_given(*parsed, replica->limits),
                            *replica, made.json);
  if (const auto checked = check_output_folder("--json", made.json); !checked) return report_error(checked.error());
  core::Result<void> written;
  if (!made.json.empty()) {
    const engine::EngineProfile sampled = capacity::sample_profile(*replica->model, replica->limits);
    if (sampled.prefill.empty() || sampled.decode.empty())
      return report_input_error(
          {core::ErrorCode::kInvalidInput, "--kv-blocks", "is too small a KV cache to profile", {}});
    written = report::write_file(made.json, capacity::profile_json(sampled, replica->model->description()));
  }
  const int printed = print_page(profile_page(*replica), {made.json});
  return std::max(printed, report_failure(written));
}

}  // namespace penstock::cli
