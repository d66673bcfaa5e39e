#include "cli/size_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "capacity/engine_candidates.h"
#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/progress_bar.h"
#include "cli/size_trace_page.h"
#include "configuration/configuration.h"
#include "configuration/traces.h"
#include "engine/roofline.h"
#include "options/values.h"
#include "replay/planner_setup.h"
#include "replay/setup.h"
#include "replay/trace_sizing.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

using configuration::Configuration;

constexpr std::string_view kRooflineText = "roofline:";
constexpr std::uint32_t kReplicaGpus = 64;
constexpr std::uint64_t kAutoscaledMax = 100;
constexpr double kAutoscaledWeight = 1.0;

// Flags of these groups of a replay, and single flags of others. Planner, faults, tenants and all else are in a file.
constexpr std::array<std::string_view, 2> kWholeGroups = {"Workload", "Engine"};
constexpr std::array<std::string_view, 7> kSingleFlags = {"--router", "--jobs",  "--score-from", "--max-replicas",
                                                          "--gpus",   "--price", "--start-up"};
// Every sizing has these.
constexpr std::array<std::string_view, 3> kCommonFlags = {"--engine", "--max-sequences", "--max-batched-tokens"};

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A GPU type and the price of one for an hour.
struct GpuPrice {
  std::string gpu;
  std::optional<double> price{};
};

core::Result<GpuPrice> gpu_price_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  GpuPrice made{text.substr(0, equals)};
  if (made.gpu.empty()) return core::invalid_input("--gpu-types", "a name is missing", "write h100=2.5,l40s=0.9");
  if (equals == std::string::npos) return made;
  const auto price = options::parse_number(std::string_view{text}.substr(equals + 1), 0.0, 1e6);
  if (!price)
    return core::invalid_input("--gpu-types", "price of " + made.gpu + ": " + price.error().what,
                               "write the price of one GPU for an hour (USD), as h100=2.5");
  made.price = *price;
  return made;
}

// An engine of --engine, and the price of one of its GPUs for an hour.
struct PricedEngine {
  std::string engine;
  std::optional<double> price{};
};

// The name of a file may contain an "@", too.
PricedEngine priced_engine_of(const std::string& text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string::npos || at == 0) return {text};
  const auto price = options::parse_number(std::string_view{text}.substr(at + 1), 0.0, 1e6);
  return price ? PricedEngine{text.substr(0, at), *price} : PricedEngine{text};
}

// Whether all that is wrong with a configuration is a KV cache that its engine has no memory for.
bool is_beyond_memory(const options::Problems& problems) {
  return std::all_of(problems.begin(), problems.end(), [](const core::Error& problem) {
    return problem.where.ends_with("--kv-blocks") || problem.where.ends_with("engine.kv_blocks");
  });
}

core::Result<capacity::EngineGrid> grid_of(const SizeTraceOptions& made, const std::vector<GpuPrice>& gpus) {
  capacity::EngineGrid grid;
  for (const GpuPrice& each : gpus) grid.gpus.push_back(each.gpu);
  grid.precisions = made.precisions;
  for (const std::string& text : made.tensor_parallel) {
    const auto count = options::parse_count(text, 1, kReplicaGpus);
    if (!count) return core::invalid_input("--tensor-parallel", count.error().what, "write numbers of GPUs, as 1,2,4");
    grid.tensor_parallel.push_back(static_cast<std::uint32_t>(*count));
  }
  return grid;
}

// A candidate with all that its runs need.
struct Setup {
  SizedEngine shown;
  Configuration configuration;
  simulation::RunOptions options;
};

class TraceSizingCommand {
 public:
  TraceSizingCommand(const SizeTraceOptions& made, const Usage& usage, const Parsed& parsed)
      : made_{made}, usage_{usage}, parsed_{parsed} {}

  int run() {
    const auto source = source_of(parsed_);
    if (!source) return source.error();
    source_ = *source;
    std::erase_if(source_.flags, [](const options::FlagValue& flag) { return flag.flag == "--engine"; });
    if (const int code = load_base(); code != kGood) return code;
    if (const int code = make_candidates(); code != kGood) return code;
    if (const auto checked = check_output(); !checked) return report_error(checked.error());
    auto workload = replay::load_workload(base_.traces, base_.run);
    if (!workload) return report_input_error(workload.error());
    workload_ = *std::move(workload);
    if (workload_.requests.empty())
      return report_error(core::Error{core::ErrorCode::kInvalidInput, workload_.name, "has no requests", {}});
    if (base_.score_from > workload_.span())
      return report_error(core::Error{core::ErrorCode::kInvalidInput, "--score-from", "no request arrives later", {}});
    if (!parsed_.has("--quiet")) print_warnings(configuration::gap_warnings(workload_, "--to"));
    auto peak = replay::busiest_hour(workload_, base_.score_from);
    if (!peak) return report_error(peak.error());
    peak_ = *std::move(peak);
    if (const auto sized = size_all(); !sized) return report_error(sized.error());
    return write();
  }

 private:
  // What all candidates share: traces, fleet, SLO.
  int load_base() {
    const options::Table table = configuration::configuration_table(base_);
    const auto loaded = configuration::load(base_, table, source_);
    if (!loaded) return report_error(loaded.error());
    if (!parsed_.operands.empty()) base_.traces.names = parsed_.operands;
    const auto refused = [](const char* what, const char* hint) {
      return report_error(core::Error{core::ErrorCode::kInvalidInput, "--config", what, hint});
    };
    if (!base_.deployments.empty())
      return refused("has deployments, and a sizing is of one", "give the values of one of them in a file of its own");
    if (base_.run.pools.size() != 1)
      return refused("has several pools, and a sizing is of one",
                     "`penstock replay` finds the cheapest split between two pools");
    for (const options::FlagValue& flag : parsed_.flags)
      if (flag.flag == "--engine") engines_.push_back(priced_engine_of(flag.text));
    if (engines_.empty() && (loaded->given("engine.model") || loaded->given("pools[0].engine.model")))
      engines_.push_back({base_.run.pools.front().step_time_model});
    if (!engines_.empty()) return kGood;
    return report_error(core::Error{core::ErrorCode::kInvalidInput, "--engine", "is missing",
                                    "write roofline:MODEL,GPU, roofline:MODEL with --gpu-types, or a profile; once for "
                                    "each engine"});
  }

  int make_candidates() {
    std::vector<GpuPrice> gpus;
    for (const std::string& text : made_.gpu_types) {
      const auto gpu = gpu_price_of(text);
      if (!gpu) return report_error(gpu.error());
      gpus.push_back(*gpu);
    }
    const auto grid = grid_of(made_, gpus);
    if (!grid) return report_error(grid.error());
    std::map<std::string, std::optional<double>> known;
    for (const PricedEngine& each : engines_) {
      const auto candidates = capacity::engine_candidates(each.engine, *grid);
      if (!candidates) return report_input_error(candidates.error());
      for (const capacity::EngineCandidate& candidate : *candidates) {
        const auto gpu =
            std::find_if(gpus.begin(), gpus.end(), [&](const GpuPrice& type) { return type.gpu == candidate.gpu; });
        const auto price = gpu == gpus.end() || !gpu->price ? each.price : gpu->price;
        const auto [first, is_new] = known.try_emplace(candidate.engine, price);
        if (!is_new && first->second != price)
          return report_error(core::Error{core::ErrorCode::kInvalidInput, "--engine",
                                          candidate.engine + " has two prices", "give one of them"});
        if (!is_new) continue;
        if (const int code = add(candidate, price); code != kGood) return code;
      }
    }
    make_labels_unique();
    return kGood;
  }

  int add(const capacity::EngineCandidate& candidate, const std::optional<double>& price) {
    Setup setup;
    options::Source source = source_;
    source.flags.push_back({"--engine", candidate.engine});
    if (price) source.flags.push_back({"--price", options::format_number(*price)});
    const options::Table table = configuration::configuration_table(setup.configuration);
    const auto loaded = configuration::load(setup.configuration, table, source);
    if (!loaded && !is_beyond_memory(loaded.error())) return report_error(loaded.error());
    const simulation::PoolSpec& pool = setup.configuration.run.pools.front();
    setup.shown.label = candidate.label;
    setup.shown.engine = candidate.engine;
    setup.shown.gpus_per_replica = pool.gpus_per_replica;
    setup.shown.price_per_gpu_hour = pool.price_per_gpu_hour;
    setup.shown.has_own_price = price.has_value();
    if (!loaded) {
      const core::Error& problem = loaded.error().front();
      setup.shown.sizing.ruled_out = replay::RuledOut::kKvCache;
      setup.shown.sizing.why = fmt::format("{}; {}", problem.what, problem.hint);
    } else if (const auto model = roofline_of(candidate.engine); !model) {
      const auto spec = engine::parse_roofline_of_any_memory(candidate.engine.substr(kRooflineText.size()));
      const bool divides = !spec || spec->spec().divides_heads();
      setup.shown.sizing.ruled_out = divides ? replay::RuledOut::kWeights : replay::RuledOut::kHeads;
      setup.shown.sizing.why = fmt::format("{}: {}", model.error().what, model.error().hint);
    } else {
      auto options = replay::make_run_options(setup.configuration.run);
      if (!options) return report_input_error(options.error());
      setup.options = *std::move(options);
      setup.options.judged_from = core::kStart + setup.configuration.score_from;
      setup.shown.kv_tokens = static_cast<double>(pool.engine.kv_blocks) * pool.engine.block_tokens;
    }
    setups_.push_back(std::move(setup));
    return kGood;
  }

  // An error if the engine is a roofline whose heads or weights do not fit its GPUs.
  static core::Result<void> roofline_of(std::string_view engine) {
    if (!engine.starts_with(kRooflineText)) return {};
    const auto model = engine::parse_roofline(engine.substr(kRooflineText.size()));
    if (!model) return tl::make_unexpected(model.error());
    return {};
  }

  // Labels do not name the model and other settings; where two are the same, the engine itself is shown.
  void make_labels_unique() {
    std::map<std::string, int> uses;
    for (const Setup& setup : setups_) ++uses[setup.shown.label];
    for (Setup& setup : setups_)
      if (uses[setup.shown.label] > 1) setup.shown.label = setup.shown.engine;
  }

  core::Result<void> check_output() const {
    configuration::OutputOptions output;
    output.json = base_.output.json;
    std::vector<std::string> inputs = base_.traces.names;
    if (!source_.file.empty()) inputs.push_back(source_.file);
    for (const PricedEngine& each : engines_) inputs.push_back(each.engine);
    return check_outputs(output, inputs);
  }

  core::Result<void> size_all() {
    ProgressBar bar{!parsed_.has("--quiet") && (parsed_.has("--progress") || stderr_is_terminal())};
    const auto show = [&](const replay::TaskProgress& progress) { bar.show(progress); };
    std::vector<replay::Task> tasks;
    for (Setup& setup : setups_) {
      if (setup.shown.sizing.ruled_out != replay::RuledOut::kNothing) continue;
      tasks.push_back({setup.shown.label, 1.0, [this, &setup](const auto& progress) -> core::Result<void> {
                         auto sized = replay::size_for_trace(workload_, peak_, setup.options, progress);
                         if (!sized) return tl::make_unexpected(sized.error());
                         setup.shown.sizing = *std::move(sized);
                         setup.shown.limits = replay::kv_assumptions(setup.options.pools.front());
                         setup.shown.notes = replay::engine_notes(setup.options, workload_);
                         std::erase(setup.shown.notes, setup.shown.limits);
                         return {};
                       }});
    }
    return replay::run_tasks(tasks, base_.jobs, show).and_then([&] { return autoscale_best(show); });
  }

  core::Result<void> autoscale_best(const std::function<void(const replay::TaskProgress&)>& show) {
    std::vector<Setup*> best;
    for (Setup& setup : setups_)
      if (setup.shown.sizing.reaches_goal()) best.push_back(&setup);
    std::stable_sort(best.begin(), best.end(),
                     [](const Setup* a, const Setup* b) { return is_cheaper(a->shown, b->shown); });
    best.resize(std::min<std::size_t>(best.size(), made_.autoscaled));
    std::vector<replay::Task> tasks;
    for (Setup* setup : best)
      tasks.push_back({setup->shown.label + " autoscaled", kAutoscaledWeight,
                       [this, setup](const auto& progress) -> core::Result<void> {
                         const auto planner = replay::make_planner_options(setup->configuration);
                         if (!planner) return tl::make_unexpected(planner.error());
                         auto done = replay::run_autoscaled(workload_, setup->options,
                                                            setup->shown.sizing.result->replicas, *planner, progress);
                         if (!done) return tl::make_unexpected(done.error());
                         setup->shown.autoscaled = *std::move(done);
                         return {};
                       }});
    return replay::run_tasks(tasks, base_.jobs, show);
  }

  [[nodiscard]] TraceSizingReport report() {
    TraceSizingReport made;
    made.workload = workload_.name;
    made.requests = workload_.requests.size();
    made.skipped_rows = workload_.skipped_rows;
    made.duration = workload_.span();
    made.rate_scale = base_.traces.rate_scale.factor;
    for (const workload::Request& request : workload_.requests) {
      made.input_tokens += request.input_tokens;
      made.output_tokens += request.output_tokens;
    }
    made.input_tokens /= static_cast<double>(made.requests);
    made.output_tokens /= static_cast<double>(made.requests);
    made.peak_from = peak_.from;
    made.peak_requests = peak_.requests;
    made.peak_is_whole_trace = peak_.is_whole_trace();
    made.slo = base_.run.slo;
    made.goal = base_.run.slo_goal;
    made.has_segments = !base_.run.slo_segments.empty();
    made.seed = base_.run.seed;
    made.command = options::command_line(usage_, parsed_, {"--jobs", "--progress", "--quiet", "--json"});
    for (Setup& setup : setups_) made.engines.push_back(std::move(setup.shown));
    sort_by_cost(made.engines);
    return made;
  }

  int write() {
    const TraceSizingReport made = report();
    core::Result<void> written;
    const std::string& json = base_.output.json;
    if (!json.empty()) {
      const InterruptLater whole_file;
      written = report::write_file(json, trace_sizing_json(made));
    }
    const int printed = parsed_.has("--quiet") ? kGood : print_page(trace_sizing_page(made), {json});
    return std::max(printed, report_failure(written));
  }

  const SizeTraceOptions& made_;
  const Usage& usage_;
  const Parsed& parsed_;
  options::Source source_;
  Configuration base_;
  std::vector<PricedEngine> engines_;
  std::vector<Setup> setups_;
  workload::Workload workload_;
  replay::BusiestHour peak_;
};

}  // namespace

options::Table size_trace_table(SizeTraceOptions& made) {
  options::Table table;
  table.group("Candidates for a TRACE");
  table
      .add({"", "--gpu-types",
            "GPU types to compare in place of that of --engine, each with the price of one GPU for an hour (USD), as "
            "h100=2.5,l40s=0.9"},
           options::names(made.gpu_types))
      .placeholder("NAME[=PRICE],…");
  table.add({"", "--precisions", "precisions of the weights to compare, as bf16,fp8"}, options::names(made.precisions))
      .placeholder("LIST");
  table
      .add({"", "--tensor-parallel",
            "GPUs of a replica to compare, as 1,2; by default tp of --engine, or 1 to 8 without it"},
           options::names(made.tensor_parallel))
      .placeholder("LIST");
  table.add({"", "--autoscaled", "so many of the cheapest are also run with the policy penstock"},
            options::count(made.autoscaled, 0, kAutoscaledMax));
  return table;
}

std::vector<Flag> size_trace_flags(const options::Table& own) {
  std::vector<Flag> flags = flags_of(own);
  Configuration unused;
  for (Flag& flag : flags_of(configuration::configuration_table(unused), configuration::replay_groups())) {
    if (is_one_of(flag.name, kCommonFlags)) continue;
    if (!is_one_of(flag.group, kWholeGroups) && !is_one_of(flag.name, kSingleFlags)) continue;
    flag.group = flag.group == "Engine"     ? "Engine, for a TRACE"
                 : flag.group == "Workload" ? "Workload of a TRACE"
                                            : "Runs for a TRACE";
    flags.push_back(std::move(flag));
  }
  const std::string runs = "Runs for a TRACE";
  flags.push_back(
      {runs, "--config", "FILE", "a YAML file with any option of `penstock replay`; flags override it", {}, {}});
  flags.push_back({runs, "--progress", {}, "show how far it is even where standard error is no terminal", {}});
  flags.push_back({runs, "--quiet", {}, "print neither the page nor progress, only errors", {}});
  return flags;
}

int size_trace(const SizeTraceOptions& made, const Usage& usage, const Parsed& parsed) {
  return TraceSizingCommand{made, usage, parsed}.run();
}

}  // namespace penstock::cli
