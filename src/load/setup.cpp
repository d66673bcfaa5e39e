#include "load/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "configuration/traces.h"
#include "core/traffic_class.h"
#include "load/sources.h"
#include "options/values.h"

namespace penstock::load {
namespace {

using core::Duration;
using options::format_duration;
using options::format_number;

constexpr double kRateMax = 1e5;  // Requests per second.
constexpr std::uint32_t kInFlightMax = 100'000;
constexpr std::size_t kTenantsMax = 1000;

core::Error wrong(std::string flag, std::string what, std::string hint = {}) {
  return {core::ErrorCode::kInvalidInput, std::move(flag), std::move(what), std::move(hint)};
}

struct TenantSpec {
  load::Sender sender;
  double share = 1.0;
};

// Parses NAME=KEY:SHARE. A key may contain colons, a share does not. What is a number after the last colon is a share.
core::Result<TenantSpec> parse_tenant(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return core::invalid_input({}, "must be NAME=KEY or NAME=KEY:SHARE", "write --tenant acme=sk-1:70%");
  TenantSpec tenant;
  tenant.sender.name = text.substr(0, equals);
  std::string key{text.substr(equals + 1)};
  if (const std::size_t colon = key.rfind(':'); colon != std::string::npos) {
    const std::string last = key.substr(colon + 1);
    if (const auto share = options::parse_share(last); share && *share > 0.0) {
      tenant.share = *share;
      key.resize(colon);
    } else if (options::parse_number(last, -1e18, 1e18)) {
      return core::invalid_input(
          {}, "has the share " + last + ", which must be above 0 and at most 1",
          "write 70%, for example; after a key that ends with a colon and a number, write :100%");
    }
  }
  auto word = options::parse_word(key, options::kApiKeyBytesMax);
  if (!word) return core::invalid_input({}, "the key " + word.error().what);
  tenant.sender.key = *std::move(word);
  return tenant;
}

// Parses interactive, batch or batch:20%.
core::Result<double> parse_class(std::string_view text) {
  if (text == core::kInteractiveClass) return 0.0;
  if (text == core::kBatchClass) return 1.0;
  if (text.starts_with("batch:")) return options::parse_share(text.substr(6));
  return core::invalid_input({}, "must be interactive, batch or batch:SHARE, is " + options::quote(text));
}

// Each use of the flag adds a tenant.
options::Value tenants(LoadOptions& made) {
  options::Value value;
  value.type = "tenant";
  value.parse = [&made](std::span<const std::string> texts) {
    return parse_tenant(texts.front()).map([&made](TenantSpec&& tenant) {
      made.tenants.push_back(std::move(tenant.sender));
      made.tenant_shares.push_back(tenant.share);
    });
  };
  value.format = [] { return std::string{}; };
  return value;
}

std::string no_text(const auto&) { return {}; }

constexpr std::string_view kTraffic = "Traffic, one of --rate, --trace, --profile and --concurrency";

void add_traffic(options::Table& table, LoadOptions& made) {
  using namespace options;
  table.group(kTraffic);
  table
      .add({"", "--rate", "requests a second, whatever the server does (open loop)"}, number(made.rate, 1e-3, kRateMax))
      .placeholder("RATE")
      .by_default("");
  table
      .add({"", "--arrivals", "poisson, uniform or burst"},
           named_choice(made.arrivals, {{"poisson", load::ArrivalKind::kPoisson},
                                        {"uniform", load::ArrivalKind::kUniform},
                                        {"burst", load::ArrivalKind::kBurst}}))
      .placeholder("KIND");
  table
      .add({"", "--trace", "requests of a file, of synthetic:rate=5,… or built-in, at their own times"},
           text(made.trace.names.emplace_back()))
      .placeholder("TRACE");
  table.add({"", "--speed", "the times of a trace are so many times shorter"}, number(made.speed, 1e-3, 1e5))
      .placeholder("FACTOR");
  configuration::add_rate_scale(table, made.trace.rate_scale);
  configuration::add_trace_format(table, made.trace.read);
  table
      .add({"", "--profile", "diurnal: the rate goes from trough to peak and back within a period"},
           named_choice(made.profile, {{"diurnal", workload::RateShape::kDiurnal}}))
      .placeholder("PROFILE");
  table.add({"", "--period", "a day of the profile"}, duration(made.period));
  table.add({"", "--peak", "highest rate of the profile"}, number(made.peak, 1e-3, kRateMax)).placeholder("RATE");
  table.add({"", "--trough", "lowest rate of the profile, where it begins"}, number(made.trough, 0.0, kRateMax))
      .placeholder("RATE")
      .by_default("a tenth of the peak");
  table
      .add({"", "--burst-factor", "in bursts the rate is so many times higher"},
           number(made.bursts.factor, 1.0, 1000.0))
      .placeholder("FACTOR");
  table.add({"", "--burst-every", "from one burst to the next"}, duration(made.bursts.every));
  table.add({"", "--burst-length", "length of a burst"}, duration(made.bursts.length));
  table
      .add({"", "--concurrency", "so many requests at once, each followed by the next (closed loop)"},
           count(made.generator.concurrency, 1, kInFlightMax))
      .placeholder("N")
      .by_default("");
  table.add({"", "--duration", "how long requests are sent"}, duration_above_zero(made.duration))
      .by_default("1m, a period, or the whole trace");
  table.add({"", "--requests", "most requests that are sent"}, count(made.requests_max, 1, 1'000'000'000))
      .placeholder("N")
      .by_default("");
  configuration::add_seed(table, made.seed);
}

void add_requests(options::Table& table, LoadOptions& made) {
  using namespace options;
  load::MixOptions& mix = made.mix;
  table.group("Requests");
  table
      .add({"", "--input-tokens", "500, 100..8000 (log-uniform) or 500:70%,4000:25%,16000:5%"},
           value("lengths", mix.input, load::LengthMix::parse, no_text<load::LengthMix>))
      .by_default("1000");
  table
      .add({"", "--output-tokens", "likewise"},
           value("lengths", mix.output, load::LengthMix::parse, no_text<load::LengthMix>))
      .by_default("150");
  table
      .add({"", "--shared-prefix-tokens", "requests begin with a text that others begin with, too"},
           count(mix.prefix_tokens, 1, load::kLengthMax))
      .placeholder("TOKENS")
      .by_default("");
  table.add({"", "--prefixes", "number of such texts, the first the most popular"}, count(mix.prefixes, 1, 1'000'000))
      .placeholder("N");
  table.add({"", "--prefix-share", "share of the requests that begin with one"}, share(mix.prefix_share));
  table.add({"", "--class", "interactive, batch or batch:SHARE, as X-Traffic-Class"},
            value("class", mix.batch_share, parse_class, no_text<double>));
  table.add({"", "--no-stream", "share of the answers that are not streamed"}, share(mix.whole_share));
  table.add({"", "--chat", "send requests to /v1/chat/completions, which is the default"}, boolean(made.chat))
      .implies("true");
  table.add({"", "--completions", "send requests to /v1/completions"}, boolean(made.completions)).implies("true");
  table
      .add({"", "--stop-at-eos", "do not send ignore_eos: answers may be shorter than requested"},
           boolean(made.stop_at_eos))
      .implies("true");
}

void add_server(options::Table& table, LoadOptions& made) {
  using namespace options;
  table.group("Server");
  add_endpoint(table, made.endpoint);
  table
      .add({"", "--tenant", "several keys, each with a share of the requests; may be given more than once"},
           tenants(made))
      .placeholder("NAME=KEY:SHARE");
  table.group("Limits");
  table
      .add({"", "--max-in-flight",
            "most requests at once of an open loop; one that has to wait counts from its intended start"},
           count(made.generator.max_in_flight, 1, kInFlightMax))
      .placeholder("N");
  table.add({"", "--timeout", "of a request, from its intended start"}, duration_above_zero(made.generator.timeout))
      .by_default("10m");
  table.group("Output");
  table.add({"", "--expect", "ttft_p95=2s,itl_p95=50ms,errors=0,…: exit code 3 where one is missed"},
            value("list", made.expectations, load::parse_expectations, no_text<std::vector<load::Expectation>>));
  table
      .add({"", "--json", "write all figures; - is standard output, and the table goes to standard error"},
           text(made.json))
      .placeholder("FILE");
  table.add({"", "--html", "write a page with charts"}, text(made.html)).placeholder("FILE");
  table.add({"", "--quiet", "print neither the table nor progress, only errors"}, boolean(made.quiet)).implies("true");
}

load::RateProfile profile_of(const LoadOptions& options) {
  load::RateProfile made;
  made.curve.shape = options.profile;
  made.curve.low = made.curve.high = options.rate;
  if (options.profile == workload::RateShape::kDiurnal) {
    made.curve.length = options.period;
    made.curve.high = options.peak;
    made.curve.low = options.trough.value_or(options.peak / 10.0);
  }
  if (options.bursts.factor > 1.0) made.bursts = options.bursts;
  return made;
}

core::Result<void> check_profile(const LoadOptions& options) {
  if (options.profile == workload::RateShape::kDiurnal) {
    if (options.trough.value_or(0.0) > options.peak)
      return tl::make_unexpected(wrong("--trough", "must be at most the peak"));
    if (options.period < std::chrono::seconds{1}) return tl::make_unexpected(wrong("--period", "must be at least 1s"));
  }
  if (options.bursts.factor > 1.0 && options.bursts.length > options.bursts.every)
    return tl::make_unexpected(wrong("--burst-length", "must be at most --burst-every"));
  return {};
}

// A longer prefix would make all prompts of one prefix equal.
core::Result<void> check_prefix(const load::MixOptions& mix) {
  if (mix.prefix_tokens < mix.input.longest()) return {};
  return tl::make_unexpected(wrong("--shared-prefix-tokens",
                                   fmt::format("must be below the longest prompt of --input-tokens ({}), is {}",
                                               mix.input.longest(), mix.prefix_tokens),
                                   "a prompt begins with the prefix and goes on with a text of its own"));
}

core::Result<void> set_senders(LoadOptions& options, const options::Arguments& given) {
  auto key = api_key_of(options.endpoint, given);
  if (!key) return tl::make_unexpected(key.error());
  options.generator.dialect.senders = {load::Sender{"default", *std::move(key)}};
  if (options.tenants.empty()) return {};
  if (options.tenants.size() > kTenantsMax)
    return tl::make_unexpected(wrong("--tenant", fmt::format("at most {} are allowed", kTenantsMax)));
  options.generator.dialect.senders = options.tenants;
  options.mix.tenant_shares = options.tenant_shares;
  return {};
}

// Maps each tenant of the trace to the tenant of the same name, else to one in turn.
std::vector<std::uint32_t> match_tenants(const std::vector<std::string>& theirs, std::vector<load::Sender>& ours) {
  std::vector<std::uint32_t> matched;
  if (ours.size() == 1 && ours.front().name == "default" && theirs.size() <= kTenantsMax) {
    // All tenants use one key and have separate figures.
    const std::string key = ours.front().key;
    ours.clear();
    for (const std::string& name : theirs) {
      matched.push_back(static_cast<std::uint32_t>(ours.size()));
      ours.push_back({name, key});
    }
    return matched;
  }
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const auto same = std::find_if(ours.begin(), ours.end(), [&](const auto& one) { return one.name == theirs[i]; });
    matched.push_back(static_cast<std::uint32_t>(same != ours.end() ? static_cast<std::size_t>(same - ours.begin())
                                                                    : i % ours.size()));
  }
  return matched;
}

core::Result<void> use_trace(const options::Arguments& given, load::RequestMix mix, LoadSetup& setup) {
  LoadOptions& from = setup.options;
  load::TraceOptions options;
  options.speed = from.speed;
  auto traces = configuration::load_traces(from.trace, from.seed);
  if (!traces) return tl::make_unexpected(traces.error());
  if (auto good = configuration::check_session_options(*traces, from.trace); !good)
    return tl::make_unexpected(std::move(good.error()));
  setup.workload = std::make_shared<workload::Workload>(std::move(traces->front().workload));
  const auto& requests = setup.workload->requests;
  options.tenants = match_tenants(setup.workload->tenants, from.generator.dialect.senders);
  options.own_classes = !given.has("--class");
  options.own_streaming = !given.has("--no-stream");
  options.requests_max = from.requests_max;
  if (given.has("--duration")) options.duration = from.duration;
  from.generator.dialect.send_class |= std::any_of(requests.begin(), requests.end(), [](const auto& request) {
    return request.traffic_class == workload::TrafficClass::kBatch;
  });
  const Duration length = core::from_seconds(core::to_seconds(setup.workload->span()) / options.speed);
  setup.planned = std::min(length, options.duration);
  if (setup.planned == length && (options.requests_max == 0 || options.requests_max >= requests.size()))
    setup.warnings = configuration::gap_warnings(*setup.workload, "--duration", options.speed);
  setup.traffic = fmt::format("trace {}, {} times as fast, {} requests", from.trace.names.front(),
                              format_number(options.speed), requests.size());
  if (const std::uint64_t skipped = setup.workload->skipped_rows; skipped > 0)
    setup.traffic += fmt::format(", {} invalid {} skipped", skipped, skipped == 1 ? "row" : "rows");
  setup.source = load::trace_source(*setup.workload, std::move(mix), std::move(options));
  return {};
}

void use_concurrency(bool endless, load::RequestMix mix, LoadSetup& setup) {
  load::GeneratorOptions& generator = setup.options.generator;
  if (!endless) generator.duration = setup.planned = setup.options.duration;
  setup.traffic = fmt::format("closed loop, {} at once", generator.concurrency);
  setup.source = load::timeless_source(std::move(mix), setup.options.requests_max);
}

void use_rate(bool endless, const options::Arguments& given, load::RequestMix mix, LoadSetup& setup) {
  const LoadOptions& options = setup.options;
  if (!endless) setup.planned = options.duration;
  const load::RateProfile profile = profile_of(options);
  setup.traffic = profile.curve.shape == workload::RateShape::kDiurnal
                      ? fmt::format("open loop, from {} to {} requests/s in {}", format_number(profile.curve.low),
                                    format_number(profile.curve.high), format_duration(profile.curve.length))
                      : fmt::format("open loop, {} requests/s, {}", format_number(options.rate),
                                    given.value_of("--arrivals", "poisson"));
  if (profile.bursts.factor > 1.0)
    setup.traffic += fmt::format(", times {} for {} every {}", format_number(profile.bursts.factor),
                                 format_duration(profile.bursts.length), format_duration(profile.bursts.every));
  const Duration until = endless ? workload::kDurationMax : options.duration;
  load::Arrivals arrivals{profile, options.arrivals, until, core::RandomStream{options.seed}.fork("arrivals")};
  setup.source = load::mixed_source(std::move(mix), std::move(arrivals), options.requests_max);
}

// Requires exactly one source of traffic and rejects flags of the others.
core::Result<void> check_ways(const options::Arguments& parsed) {
  std::string given;
  for (const char* way : {"--rate", "--trace", "--concurrency", "--profile"}) {
    if (!parsed.has(way)) continue;
    if (!given.empty()) return tl::make_unexpected(wrong(way, "does not go together with " + given));
    given = way;
  }
  if (given.empty())
    return tl::make_unexpected(
        wrong({}, "there is no traffic to make",
              "give --rate, --trace, --profile or --concurrency; `penstock load --help` has examples"));
  constexpr std::array<std::pair<const char*, std::string_view>, 23> kBelongs = {
      {{"--speed", "--trace"},
       {"--rate-scale", "--trace"},
       {"--rate-scale-spread", "--trace"},
       {"--format", "--trace"},
       {"--columns", "--trace"},
       {"--trace-model", "--trace"},
       {"--time-format", "--trace"},
       {"--skip-bad-rows", "--trace"},
       {"--session-rate", "--trace"},
       {"--think-time-max", "--trace"},
       {"--period", "--profile"},
       {"--peak", "--profile"},
       {"--trough", "--profile"},
       {"--burst-factor", "--rate --profile"},
       {"--burst-every", "--rate --profile"},
       {"--burst-length", "--rate --profile"},
       {"--arrivals", "--rate --profile"},
       {"--input-tokens", "--rate --profile --concurrency"},
       {"--output-tokens", "--rate --profile --concurrency"},
       {"--shared-prefix-tokens", "--rate --profile --concurrency"},
       {"--prefixes", "--rate --profile --concurrency"},
       {"--prefix-share", "--rate --profile --concurrency"},
       {"--max-in-flight", "--rate --profile --trace"}}};
  for (const auto& [flag, ways] : kBelongs)
    if (parsed.has(flag) && ways.find(given) == std::string_view::npos)
      return tl::make_unexpected(wrong(flag, "has no effect with " + given));
  return {};
}

// Rejects flags that change nothing beside others, or without them.
core::Result<void> check_companions(const options::Arguments& parsed) {
  for (const auto& [flag, other] : {std::pair{"--completions", "--chat"}, {"--api-key", "--tenant"}})
    if (parsed.has(flag) && parsed.has(other))
      return tl::make_unexpected(wrong(flag, fmt::format("does not go together with {}", other)));
  for (const auto& [flag, other] : {std::pair{"--burst-every", "--burst-factor"},
                                    {"--burst-length", "--burst-factor"},
                                    {"--prefixes", "--shared-prefix-tokens"},
                                    {"--prefix-share", "--shared-prefix-tokens"}})
    if (parsed.has(flag) && !parsed.has(other))
      return tl::make_unexpected(wrong(flag, fmt::format("has no effect without {}", other)));
  return {};
}

}  // namespace

options::Table load_table(LoadOptions& made) {
  options::Table table;
  add_traffic(table, made);
  add_requests(table, made);
  add_server(table, made);
  return table;
}

options::Usage load_usage(const options::Table& table) {
  options::Usage usage;
  usage.command = "load";
  usage.summary =
      "Sends requests to any OpenAI-compatible server and measures what its users would see. Latencies count from "
      "when\n"
      "a request was meant to start, so that a server that stalls cannot hide it.";
  usage.operand = "URL";
  usage.flags = options::flags_of(table);
  usage.notes =
      "Ctrl-C ends the run early; the report and the exit code are of what was measured.\n\n"
      "Examples:\n"
      "  penstock load http://127.0.0.1:8000 --rate 5 --input-tokens 100..8000 --expect "
      "ttft_p95=2s,itl_p95=50ms,errors=0\n"
      "  penstock load https://api.example.com --concurrency 32 --input-tokens 3000 --shared-prefix-tokens 2000 "
      "--prefixes 8\n"
      "  penstock load http://127.0.0.1:8000 --trace conversation.jsonl --speed 4 --html load.html\n"
      "  penstock load http://127.0.0.1:8000 --profile diurnal --period 10m --peak 20 --trough 2 --burst-factor 3\n";
  return usage;
}

core::Result<LoadSetup> make_load_setup(LoadOptions from, const std::string& url, const options::Arguments& given) {
  if (const auto checked = check_ways(given); !checked) return tl::make_unexpected(checked.error());
  if (const auto checked = check_companions(given); !checked) return tl::make_unexpected(checked.error());
  LoadSetup setup;
  setup.options = std::move(from);
  LoadOptions& options = setup.options;
  auto parsed = parse_endpoint(url);
  if (!parsed) return tl::make_unexpected(parsed.error());
  setup.url = *std::move(parsed);
  if (auto checked = check_profile(options); !checked) return tl::make_unexpected(checked.error());
  if (auto checked = check_prefix(options.mix); !checked) return tl::make_unexpected(checked.error());
  if (given.has("--profile") && !given.has("--duration")) options.duration = options.period;
  if (const auto set = set_senders(options, given); !set) return tl::make_unexpected(set.error());

  load::Dialect& dialect = options.generator.dialect;
  dialect.endpoint = options.completions ? api::Endpoint::kCompletions : api::Endpoint::kChatCompletions;
  dialect.ignore_eos = !options.stop_at_eos;
  dialect.send_class = given.has("--class");
  dialect.seed = options.seed;
  dialect.host_field = setup.url.host_field();
  dialect.path_prefix = setup.url.path;

  load::RequestMix requests{options.mix, options.seed};
  const bool endless = options.requests_max > 0 && !given.has("--duration");
  if (given.has("--trace")) {
    if (const auto used = use_trace(given, std::move(requests), setup); !used) return tl::make_unexpected(used.error());
  } else if (given.has("--concurrency")) {
    use_concurrency(endless, std::move(requests), setup);
  } else {
    use_rate(endless, given, std::move(requests), setup);
  }
  return setup;
}

}  // namespace penstock::load
