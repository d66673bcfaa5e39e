#include "cli/profile_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "capacity/sampled_profile.h"
#include "cli/console.h"
#include "cli/outputs.h"
#include "core/random.h"
#include "engine/step_time_models.h"
#include "engine/table.h"
#include "load/burst.h"
#include "net/descriptors.h"
#include "net/fetch.h"
#include "net/unix_time.h"
#include "options/values.h"
#include "profiling/profiler.h"
#include "profiling/progress_file.h"
#include "profiling/traffic_check.h"
#include "report/format.h"
#include "report/write_file.h"
#include "telemetry/frontend_workers.h"

namespace penstock::cli {
namespace {

constexpr core::Duration kIdleTime = std::chrono::seconds{3};  // Gauges of engines lag behind their requests.
constexpr core::Duration kIdleInterval = std::chrono::milliseconds{100};
constexpr core::Duration kLineInterval = std::chrono::seconds{5};  // Progress without a terminal.
constexpr int kRoundTrips = 5;
constexpr std::uint32_t kContextMargin = 128;  // Tokens of answers, and errors of the prompts' lengths.
constexpr std::size_t kProgressBytesMax = std::size_t{16} << 20;
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kFromMeasurement = "measurement";

// ---- the endpoint --------------------------------------------------------------------------------------------------

// Each call runs the loop until its answer is there.
class Endpoint {
 public:
  Endpoint(net::Loop& loop, const load::GeneratorOptions& generator)
      : loop_{loop}, generator_{generator}, client_{loop}, sender_{loop, generator} {}

  core::Result<net::FetchAnswer> get(std::string_view path) {
    return load::get_from_server(loop_, client_, generator_, path);
  }

  // Empty if the endpoint exposes no metrics of a known engine.
  std::optional<telemetry::EngineScrape> scrape() {
    const auto answer = get("/metrics");
    if (!answer || answer->status != 200) return std::nullopt;
    const auto exposition = telemetry::parse_exposition(answer->body, "/metrics");
    if (!exposition) return std::nullopt;
    telemetry::EngineScrape scrape = telemetry::read_scrape(*exposition);
    if (!scrape.running_requests) return std::nullopt;
    return scrape;
  }

  // Most sequences that the endpoint runs at once, as it says; 0 if it does not.
  double sequences_max() {
    if (const auto metrics = get("/metrics"); metrics && metrics->status == 200)
      if (const auto exposition = telemetry::parse_exposition(metrics->body, "/metrics"))
        if (const auto workers = telemetry::read_frontend_workers(*exposition); workers && workers->max_sequences)
          return static_cast<double>(*workers->max_sequences);
    const auto info = get("/penstock/v1/info");
    if (!info || info->status != 200) return 0.0;
    const auto read = nlohmann::json::parse(info->body, nullptr, false);
    if (!read.is_object() || !read.contains("max_sequences") || !read["max_sequences"].is_number()) return 0.0;
    return std::max(0.0, read["max_sequences"].get<double>());
  }

  // Shortest time of a small request, which no computation is part of.
  core::Result<double> round_trip_ms() {
    double least_ms = 1e9;
    for (int i = 0; i < kRoundTrips; ++i) {
      const core::Instant before = net::Loop::read_clock();
      if (const auto answer = get("/v1/models"); !answer) return tl::make_unexpected(answer.error());
      least_ms = std::min(least_ms, core::to_milliseconds(net::Loop::read_clock() - before));
    }
    return least_ms;
  }

  std::vector<load::BurstAnswer> send(const profiling::Burst& burst) {
    load::RequestShape shape;
    shape.input_tokens = burst.prompt_words;
    shape.output_tokens = burst.output_tokens;
    std::vector<load::BurstAnswer> answers;
    sender_.send(std::vector<load::RequestShape>(burst.requests, shape), [&](std::vector<load::BurstAnswer> made) {
      answers = std::move(made);
      loop_.stop();
    });
    loop_.run();
    return answers;
  }

  void wait(core::Duration time) {
    loop_.after(time, [this] { loop_.stop(); });
    loop_.run();
  }

 private:
  net::Loop& loop_;
  load::GeneratorOptions generator_;
  net::Client client_;
  load::BurstSender sender_;
};

// ---- the run -------------------------------------------------------------------------------------------------------

class ProgressLine {
 public:
  void show(const profiling::Progress& progress, const std::string& last) {
    const std::string text = fmt::format("{} of {} points, {}about {} left", progress.measured, progress.total, last,
                                         report::format_seconds(core::to_seconds(progress.remaining)));
    const core::Instant now = net::Loop::read_clock();
    if (stderr_is_terminal()) {
      print_error_text("\r\033[K" + text);
      drawn_ = true;
    } else if (!shown_ || now - *shown_ >= kLineInterval) {
      print_error_text(text + "\n");
      shown_ = now;
    }
  }
  ~ProgressLine() {
    if (drawn_) print_error_text("\r\033[K");
  }

 private:
  std::optional<core::Instant> shown_;
  bool drawn_ = false;
};

std::vector<profiling::TimedAnswer> timed(std::vector<load::BurstAnswer> answers) {
  std::vector<profiling::TimedAnswer> made;
  for (load::BurstAnswer& answer : answers)
    made.push_back({answer.record.sent, std::move(answer.token_times), answer.record.prompt_tokens,
                    answer.record.tokens, answer.record.cached_tokens});
  return made;
}

struct Run {
  const EndpointProfileOptions& options;
  std::string host;  // Of errors.
  profiling::MeasurementId id;
  std::string partial;  // Path; empty without a file.
  profiling::Profiler profiler;
  double kv_tokens = 0.0;   // 0 if the endpoint does not expose it.
  double sequences = 0.0;   // The same.
  bool is_complete = true;  // Otherwise a limit was reached.
  std::uint64_t requests = 0;
};

core::Result<void> save(const Run& run) {
  if (run.partial.empty()) return {};
  const profiling::ProfilerState state = run.profiler.state();
  if (state.points.empty()) return {};
  const InterruptLater later;
  return report::write_file(run.partial, profiling::progress_text(run.id, state));
}

// Says what is kept of a run that failed.
core::Error stopped(const Run& run, core::Error error) {
  error.code = core::ErrorCode::kInvalidInput;
  error.where = error.where.empty() ? run.host : run.host + ": " + error.where;
  const profiling::Progress progress = run.profiler.progress();
  const std::string kept = run.partial.empty() || run.profiler.state().points.empty()
                               ? std::string{"nothing was written"}
                               : fmt::format("{} keeps {} of {} points, and the same command continues", run.partial,
                                             progress.measured, progress.total);
  error.hint = error.hint.empty() ? kept : error.hint + "; " + kept;
  return error;
}

std::optional<std::string> other_traffic(Endpoint& endpoint, profiling::TrafficCheck& check) {
  const core::Instant until = net::Loop::read_clock() + kIdleTime;
  for (;;) {
    const auto scrape = endpoint.scrape();
    if (!scrape) return std::nullopt;
    if (!profiling::TrafficCheck::is_busy(*scrape) || net::Loop::read_clock() >= until) return check.take(*scrape);
    endpoint.wait(kIdleInterval);
  }
}

core::Result<void> check_answers(const std::vector<load::BurstAnswer>& answers) {
  for (const load::BurstAnswer& answer : answers) {
    if (answer.record.outcome == load::Outcome::kOk || answer.record.outcome == load::Outcome::kCancelled) continue;
    std::string what = "a request failed: " + answer.record.reason;
    if (!answer.response.empty()) what += ": " + report::printable(answer.response);
    return core::invalid_input({}, std::move(what));
  }
  return {};
}

// Measures until all points are there or a limit is reached.
core::Result<void> measure(Run& run, Endpoint& endpoint) {
  profiling::TrafficCheck check;
  ProgressLine line;
  std::string last;
  const core::Instant began = net::Loop::read_clock();
  const auto refuse_traffic = [&]() -> core::Result<void> {
    const auto others = other_traffic(endpoint, check);
    if (!others) return {};
    return core::invalid_input({}, "the endpoint has other traffic: " + *others,
                               "profile a replica that no one else uses");
  };
  if (auto idle = refuse_traffic(); !idle) return idle;
  while (const auto burst = run.profiler.next()) {
    line.show(run.profiler.progress(), last);
    if (run.requests + burst->requests > run.options.requests_max ||
        net::Loop::read_clock() - began > run.options.duration) {
      run.is_complete = false;
      return {};
    }
    std::vector<load::BurstAnswer> answers = endpoint.send(*burst);
    run.requests += burst->requests;
    if (auto good = check_answers(answers); !good) return good;
    const std::vector<profiling::TimedAnswer> times = timed(std::move(answers));
    std::uint64_t prompt_tokens = 0;
    for (const profiling::TimedAnswer& answer : times) prompt_tokens += answer.prompt_tokens;
    check.record_ours(times.size(), prompt_tokens);
    if (auto idle = refuse_traffic(); !idle) return idle;
    if (auto taken = run.profiler.take(*burst, times); !taken) return taken;
    if (!burst->is_warm_up()) last = to_string(burst->point) + ", ";
    if (auto saved = save(run); !saved) return saved;
  }
  return {};
}

// ---- after it ------------------------------------------------------------------------------------------------------

core::Result<profiling::ProfilerState> earlier_state(const std::string& partial, const profiling::MeasurementId& id) {
  std::error_code error;
  if (partial.empty() || !std::filesystem::exists(partial, error)) return profiling::ProfilerState{};
  const auto text = engine::read_file(partial, kProgressBytesMax);
  if (!text) return tl::make_unexpected(text.error());
  return profiling::read_progress(*text, partial, id);
}

// A limit of the endpoint, and where it comes from; see profiling::ProfileDocument.
struct FoundLimit {
  double value = 0.0;
  std::string from;
};
// `found`: the measurement found the limit.
FoundLimit limit_of(double given, double exposed, double measured, bool found) {
  if (given > 0.0) return {given, "flag"};
  if (exposed > 0.0) return {exposed, "metrics"};
  return {measured, found ? "engine" : std::string{kFromMeasurement}};
}

FoundLimit sequences_of(const Run& run, const profiling::MeasuredModel& model, const GivenLimits& given) {
  const std::uint32_t found = run.profiler.sequences_max();
  return limit_of(given.max_sequences, run.sequences, found > 0 ? found : model.most_sequences(), found > 0);
}

FoundLimit kv_tokens_of(const Run& run, const profiling::MeasuredModel& model, const GivenLimits& given) {
  return limit_of(given.kv_tokens, run.kv_tokens, model.most_kv_tokens(), run.profiler.state().kv_tokens_too_many > 0);
}

core::Result<engine::EngineProfile> profile_of(const profiling::MeasuredModel& model,
                                               const capacity::EngineLimits& limits) {
  capacity::SampleRange range;
  range.shortest_prompt = model.shortest_prompt();
  range.longest_prompt = model.longest_prompt();
  range.shortest_context = model.shortest_context();
  range.longest_context = model.longest_context();
  range.sequences_max = model.most_sequences();
  engine::EngineProfile profile = capacity::sample_profile(model, limits, range);
  if (profile.prefill.empty() || profile.decode.empty())
    return core::invalid_input("--kv-blocks", "is too small a KV cache to profile");
  return profile;
}

tl::expected<core::Result<void>, int> write_profile(const Run& run, const profiling::MeasuredModel& model,
                                                    const GivenLimits& given, ProfiledReplica& replica,
                                                    const std::string& json) {
  const FoundLimit sequences = sequences_of(run, model, given), kv_tokens = kv_tokens_of(run, model, given);
  replica.limits = capacity::EngineLimits{};
  if (given.max_batched_tokens > 0.0) replica.limits.max_batched_tokens = given.max_batched_tokens;
  replica.limits.max_sequences = sequences.value;
  replica.limits.kv_tokens = kv_tokens.value;
  replica.measured_sequences = model.most_sequences();
  replica.sequences_at_least = sequences.from == kFromMeasurement;
  replica.kv_tokens_at_least = kv_tokens.from == kFromMeasurement;
  auto profile = profile_of(model, replica.limits);
  if (!profile) return tl::make_unexpected(report_error(profile.error()));
  const std::string text = capacity::profile_json(*profile, run.id.endpoint);
  replica.model = std::make_shared<engine::Table>(*std::move(profile), run.id.endpoint);
  replica.longest_prompt = model.longest_prompt();
  if (json.empty()) return core::Result<void>{};
  profiling::ProfileDocument document;
  document.id = run.id;
  document.sequences_max = replica.limits.max_sequences;
  document.sequences_from = sequences.from;
  document.kv_tokens_from = kv_tokens.from;
  document.warnings = capacity_warnings(replica);
  document.input_tokens = replica.traffic.input_tokens;
  document.output_tokens = replica.traffic.output_tokens;
  document.ttft_objective_ms = core::to_milliseconds(replica.slo.ttft);
  document.itl_objective_ms = core::to_milliseconds(replica.slo.itl);
  if (const auto found = capacity::token_capacity(*replica.model, replica.traffic, replica.limits, replica.slo)) {
    document.c_in_tokens_per_s = found->tokens.input_tokens_per_s;
    document.c_out_tokens_per_s = found->tokens.output_tokens_per_s;
  }
  const InterruptLater later;
  auto written = report::write_file(json, profiling::profile_document(text, document, run.profiler.state()));
  std::error_code ignored;
  if (written && run.is_complete) std::filesystem::remove(run.partial, ignored);
  return written;
}

core::Result<load::GeneratorOptions> generator_of(const net::Url& url, const EndpointProfileOptions& options,
                                                  const Parsed& parsed) {
  load::GeneratorOptions generator;
  auto key = load::api_key_of(options.endpoint, parsed);
  if (!key) return tl::make_unexpected(key.error());
  generator.dialect.senders = {load::Sender{"default", *std::move(key)}};
  generator.dialect.endpoint = options.completions ? api::Endpoint::kCompletions : api::Endpoint::kChatCompletions;
  generator.dialect.host_field = url.host_field();
  generator.dialect.path_prefix = url.path;
  // Prompts of an earlier run must not be found in the cache of the endpoint.
  generator.dialect.seed = core::mix64(static_cast<std::uint64_t>(net::unix_time().count()));
  generator.timeout = options.timeout;
  if (auto found = load::find_server(url, options.endpoint, generator); !found)
    return tl::make_unexpected(found.error());
  return generator;
}

std::string summary(const Run& run) {
  const profiling::Progress progress = run.profiler.progress();
  std::string text =
      fmt::format("{} points measured with {} requests", progress.measured, report::format_count(run.requests));
  if (const std::uint32_t most = run.profiler.sequences_max(); most > 0)
    text += fmt::format("; the endpoint runs at most {} sequences at once", most);
  if (!run.is_complete)
    text += fmt::format(
        "; {} points are left out because --requests or --duration was reached, the same command "
        "continues",
        progress.total - progress.measured);
  return text + "\n";
}

}  // namespace

void add_endpoint_profile(options::Table& table, EndpointProfileOptions& made) {
  using namespace options;
  table.group("Endpoint, with a URL");
  load::add_endpoint(table, made.endpoint);
  table
      .add({"", "--max-prompt", "longest prompt and context that is measured"},
           count(made.grid.prompt_tokens, 256, 10'000'000))
      .placeholder("TOKENS");
  table.add({"", "--max-concurrency", "most sequences at once that are measured"}, count(made.grid.sequences, 2, 4096))
      .placeholder("SEQUENCES");
  table.add({"", "--requests", "most requests that are sent"}, count(made.requests_max, 1, 1'000'000'000))
      .placeholder("N");
  table.add({"", "--duration", "longest time that is measured"}, duration_above_zero(made.duration));
  table.add({"", "--timeout", "of a request"}, duration_above_zero(made.timeout));
  table
      .add({"", "--completions", "send requests to /v1/completions instead of /v1/chat/completions"},
           boolean(made.completions))
      .implies("true");
}

int profile_endpoint(const std::string& url, const EndpointProfileOptions& options, const Parsed& parsed,
                     const GivenLimits& given, ProfiledReplica replica, const std::string& json) {
  const auto address = load::parse_endpoint(url);
  if (!address) return report_input_error(address.error());
  if (const auto checked = check_output_folder("--json", json); !checked) return report_error(checked.error());
  auto generator = generator_of(*address, options, parsed);
  if (!generator) return report_input_error(generator.error());
  net::prepare_descriptors(1 << 14);
  net::Loop loop;
  const auto model = load::request_model(loop, *generator, options.endpoint.model);
  if (!model) return report_input_error(model.error());
  generator->dialect.model = model->id;

  Endpoint endpoint{loop, *generator};
  const auto round_trip = endpoint.round_trip_ms();
  if (!round_trip) return report_input_error(round_trip.error());
  const auto scrape = endpoint.scrape();
  if (!scrape)
    print_error_text(
        "penstock: the endpoint exposes no metrics of a known engine: other traffic is detected by step "
        "times only\n");
  profiling::ProfilerOptions profiler;
  profiler.grid = options.grid;
  profiler.round_trip_ms = *round_trip;
  profiler.context_tokens_max = model->context_tokens_max;
  if (model->context_tokens_max > 0)
    profiler.grid.prompt_tokens =
        std::min(profiler.grid.prompt_tokens,
                 model->context_tokens_max - std::min(kContextMargin, model->context_tokens_max / 2));
  if (scrape && scrape->kv_capacity_tokens) profiler.kv_tokens_max = static_cast<double>(*scrape->kv_capacity_tokens);
  const double kv_tokens = profiler.kv_tokens_max;
  if (given.kv_tokens > 0.0) profiler.kv_tokens_max = given.kv_tokens;

  const profiling::MeasurementId id{url, model->id, profiler.grid};
  const std::string partial =
      json.empty() || json == report::kStandardOutput ? std::string{} : json + std::string{kPartial};
  const auto earlier = earlier_state(partial, id);
  if (!earlier) return report_input_error(earlier.error());
  Run run{options,   address->host_field(),   id, partial, profiling::Profiler{profiler, *earlier},
          kv_tokens, endpoint.sequences_max()};
  if (!earlier->points.empty())
    print_error_text(fmt::format("{} is continued: {} of {} points are measured\n", report::printable(partial),
                                 run.profiler.progress().measured, run.profiler.progress().total));

  if (const auto measured = measure(run, endpoint); !measured) return report_error(stopped(run, measured.error()));
  const auto fitted = run.profiler.model();
  if (!fitted) {
    core::Error error = fitted.error();
    if (!run.is_complete) error.hint = "--requests or --duration was reached";
    return report_error(stopped(run, std::move(error)));
  }
  const auto written = write_profile(run, *fitted, given, replica, json);
  if (!written) return written.error();
  const int printed = print_page(summary(run) + profile_page(replica), {json});
  return std::max(printed, report_failure(*written));
}

}  // namespace penstock::cli
