#include "cli/load_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "cli/flag_reader.h"
#include "cli/traces.h"
#include "load/sources.h"

namespace penstock::cli {
namespace {

using core::Duration;

constexpr double kRateMax = 1e5;  // requests per second
constexpr std::uint32_t kInFlightMax = 100'000;
constexpr std::size_t kTenantsMax = 1000;
constexpr std::size_t kKeyBytesMax = 4096;
constexpr Duration kUsualDuration = std::chrono::minutes{1};

core::Error wrong(std::string flag, std::string what, std::string hint = {}) {
  return {core::ErrorCode::kInvalidInput, std::move(flag), std::move(what), std::move(hint)};
}

// What travels in a head: no blank, no control character.
core::Result<std::string> parse_header_word(const std::string& text) {
  const bool visible = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (text.empty() || text.size() > kKeyBytesMax || !visible)
    return core::invalid_input({}, fmt::format("must be 1 to {} visible ASCII characters", kKeyBytesMax));
  return text;
}

struct TenantSpec {
  load::Sender sender;
  double share = 1.0;
};

// NAME=KEY:SHARE. A key may hold colons, a share does not.
core::Result<TenantSpec> parse_tenant(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return core::invalid_input({}, "must be NAME=KEY or NAME=KEY:SHARE", "write --tenant acme=sk-1:70%");
  TenantSpec tenant;
  tenant.sender.name = text.substr(0, equals);
  std::string key = text.substr(equals + 1);
  if (const std::size_t colon = key.rfind(':'); colon != std::string::npos) {
    if (const auto share = config::parse_share(key.substr(colon + 1)); share && *share > 0.0) {
      tenant.share = *share;
      key.resize(colon);
    }
  }
  auto word = parse_header_word(key);
  if (!word) return core::invalid_input({}, "the key " + word.error().what);
  tenant.sender.key = *std::move(word);
  return tenant;
}

core::Result<void> read_tenants(const Parsed& parsed, LoadSetup& setup, load::MixOptions& mix) {
  std::string key;
  if (const char* variable = std::getenv("OPENAI_API_KEY"); variable != nullptr) key = variable;
  if (parsed.has("--api-key")) key = parsed.value_of("--api-key");
  if (!key.empty()) {
    if (const auto word = parse_header_word(key); !word)
      return tl::make_unexpected(wrong(parsed.has("--api-key") ? "--api-key" : "OPENAI_API_KEY", word.error().what));
  }
  setup.generator.dialect.senders = {load::Sender{"default", key}};
  if (!parsed.has("--tenant")) return {};
  setup.generator.dialect.senders.clear();
  mix.tenant_shares.clear();
  for (const config::FlagValue& flag : parsed.flags) {
    if (flag.flag != "--tenant") continue;
    auto tenant = parse_tenant(flag.text);
    if (!tenant) return tl::make_unexpected(wrong(flag.flag, tenant.error().what, tenant.error().hint));
    setup.generator.dialect.senders.push_back(std::move(tenant->sender));
    mix.tenant_shares.push_back(tenant->share);
  }
  if (mix.tenant_shares.size() > kTenantsMax)
    return tl::make_unexpected(wrong("--tenant", fmt::format("at most {} are allowed", kTenantsMax)));
  return {};
}

// interactive, batch or batch:20%.
core::Result<double> parse_class(const std::string& text) {
  if (text == "interactive") return 0.0;
  if (text == "batch") return 1.0;
  if (text.starts_with("batch:")) return config::parse_share(std::string_view{text}.substr(6));
  return core::invalid_input({}, "must be interactive, batch or batch:SHARE, is " + config::quoted(text));
}

core::Result<load::ArrivalKind> parse_arrivals(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, load::ArrivalKind>, 3> kKinds = {
      {{"poisson", load::ArrivalKind::kPoisson},
       {"uniform", load::ArrivalKind::kUniform},
       {"burst", load::ArrivalKind::kBurst}}};
  for (const auto& [name, kind] : kKinds)
    if (name == text) return kind;
  return core::invalid_input({}, "must be poisson, uniform or burst, is " + config::quoted(text));
}

struct Shape {  // of the traffic over time
  std::uint64_t seed = 1, requests_max = 0;
  Duration duration{};
  double rate = 0.0;
  load::ArrivalKind arrivals = load::ArrivalKind::kPoisson;
  load::RateProfile profile;
};

core::Result<void> read_profile(const Parsed& parsed, FlagReader& reader, Shape& shape) {
  load::Bursts& bursts = shape.profile.bursts;
  workload::RateCurve& curve = shape.profile.curve;
  curve.low = curve.high = shape.rate;
  if (parsed.has("--profile")) {
    if (const std::string name = parsed.value_of("--profile"); name != "diurnal")
      return tl::make_unexpected(wrong("--profile", "must be diurnal, is " + config::quoted(name)));
    curve.shape = workload::RateShape::kDiurnal;
    curve.length = std::chrono::minutes{10};
    curve.high = 10.0;
    reader.duration("--period", curve.length);
    reader.number("--peak", curve.high, 1e-3, kRateMax);
    curve.low = curve.high / 10.0;
    reader.number("--trough", curve.low, 0.0, kRateMax);
    if (!reader.error() && curve.low > curve.high)
      return tl::make_unexpected(wrong("--trough", "must be at most the peak"));
    if (curve.length < std::chrono::seconds{1}) return tl::make_unexpected(wrong("--period", "must be at least 1s"));
  }
  reader.number("--burst-factor", bursts.factor, 1.0, 1000.0);
  if (bursts.factor > 1.0) {
    bursts.every = std::chrono::minutes{2};
    bursts.length = std::chrono::seconds{10};
  }
  reader.duration("--burst-every", bursts.every);
  reader.duration("--burst-length", bursts.length);
  if (!reader.error() && bursts.length > bursts.every)
    return tl::make_unexpected(wrong("--burst-length", "must be at most --burst-every"));
  return {};
}

// Which tenant of ours a tenant of the trace is: the one of its name, else they go round.
std::vector<std::uint32_t> match_tenants(const std::vector<std::string>& theirs, std::vector<load::Sender>& ours) {
  std::vector<std::uint32_t> matched;
  if (ours.size() == 1 && ours.front().name == "default" && theirs.size() <= kTenantsMax) {
    // One key for all, but each with figures of its own.
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

core::Result<void> use_trace(const Parsed& parsed, FlagReader& reader, const Shape& shape, load::RequestMix mix,
                             LoadSetup& setup) {
  config::ReplaySettings settings;
  settings.traces = {parsed.value_of("--trace")};
  settings.format = parsed.value_of("--format", settings.format);
  settings.seed = shape.seed;
  reader.number("--rate-scale", settings.rate_scale, 1e-3, 1000.0);
  load::TraceOptions options;
  reader.number("--speed", options.speed, 1e-3, 1e5);
  if (reader.error()) return tl::make_unexpected(*reader.error());
  auto traces = load_traces(settings);
  if (!traces) return tl::make_unexpected(traces.error());
  setup.workload = std::make_shared<workload::Workload>(std::move(traces->front().workload));
  const auto& requests = setup.workload->requests;
  options.tenants = match_tenants(setup.workload->tenants, setup.generator.dialect.senders);
  options.own_classes = !parsed.has("--class");
  options.requests_max = shape.requests_max;
  if (parsed.has("--duration")) options.duration = shape.duration;
  setup.generator.dialect.send_class |= std::any_of(requests.begin(), requests.end(), [](const auto& request) {
    return request.traffic_class == workload::TrafficClass::kBatch;
  });
  const Duration length = core::from_seconds(core::to_seconds(setup.workload->span()) / options.speed);
  setup.planned = std::min(length, options.duration);
  setup.traffic = fmt::format("trace {}, {} times as fast, {} requests", settings.traces.front(),
                              config::format_number(options.speed), requests.size());
  setup.source = load::trace_source(*setup.workload, std::move(mix), std::move(options));
  return {};
}

void use_concurrency(const Parsed& parsed, const Shape& shape, load::RequestMix mix, LoadSetup& setup) {
  const bool endless = shape.requests_max > 0 && !parsed.has("--duration");
  if (!endless) setup.generator.duration = setup.planned = shape.duration;
  setup.traffic = fmt::format("closed loop, {} at once", setup.generator.concurrency);
  setup.source = load::timeless_source(std::move(mix), shape.requests_max);
}

void use_rate(const Parsed& parsed, const Shape& shape, load::RequestMix mix, LoadSetup& setup) {
  const bool endless = shape.requests_max > 0 && !parsed.has("--duration");
  if (!endless) setup.planned = shape.duration;
  const workload::RateCurve& curve = shape.profile.curve;
  setup.traffic = curve.shape == workload::RateShape::kDiurnal
                      ? fmt::format("open loop, from {} to {} requests/s in {}", config::format_number(curve.low),
                                    config::format_number(curve.high), config::format_duration(curve.length))
                      : fmt::format("open loop, {} requests/s, {}", config::format_number(shape.rate),
                                    parsed.value_of("--arrivals", "poisson"));
  if (shape.profile.bursts.factor > 1.0)
    setup.traffic += fmt::format(", times {} for {} every {}", config::format_number(shape.profile.bursts.factor),
                                 config::format_duration(shape.profile.bursts.length),
                                 config::format_duration(shape.profile.bursts.every));
  const Duration until = endless ? workload::kDurationMax : shape.duration;
  load::Arrivals arrivals{shape.profile, shape.arrivals, until, core::RandomStream{shape.seed}.fork("arrivals")};
  setup.source = load::mixed_source(std::move(mix), std::move(arrivals), shape.requests_max);
}

// Exactly one of the ways to make traffic, and no flag of another.
core::Result<void> check_ways(const Parsed& parsed) {
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
  constexpr std::array<std::pair<const char*, std::string_view>, 14> kBelongs = {
      {{"--speed", "--trace"},
       {"--rate-scale", "--trace"},
       {"--format", "--trace"},
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
       {"--max-in-flight", "--rate --profile --trace"}}};
  for (const auto& [flag, ways] : kBelongs)
    if (parsed.has(flag) && ways.find(given) == std::string_view::npos)
      return tl::make_unexpected(wrong(flag, "means nothing with " + given));
  return {};
}

}  // namespace

core::Result<LoadSetup> read_load_setup(const Parsed& parsed) {
  if (const auto checked = check_ways(parsed); !checked) return tl::make_unexpected(checked.error());
  LoadSetup setup;
  const auto url = net::parse_url(parsed.operands.front());
  if (!url) return tl::make_unexpected(url.error());
  setup.url = *url;
  // Clients are configured with ".../v1"; so may this one be.
  if (setup.url.path == "/v1" || setup.url.path.ends_with("/v1")) setup.url.path.resize(setup.url.path.size() - 3);

  FlagReader reader{parsed};
  load::MixOptions mix;
  Shape shape;
  shape.duration = kUsualDuration;
  load::Dialect& dialect = setup.generator.dialect;
  reader.count("--seed", shape.seed, 0, UINT64_MAX);
  reader.count("--requests", shape.requests_max, 1, 1'000'000'000);
  reader.number("--rate", shape.rate, 1e-3, kRateMax);
  reader.read("--arrivals", shape.arrivals, parse_arrivals);
  reader.count("--concurrency", setup.generator.concurrency, 1, kInFlightMax);
  reader.count("--max-in-flight", setup.generator.max_in_flight, 1, kInFlightMax);
  reader.duration("--timeout", setup.generator.timeout);
  reader.read("--input-tokens", mix.input, load::LengthMix::parse);
  reader.read("--output-tokens", mix.output, load::LengthMix::parse);
  reader.count("--shared-prefix-tokens", mix.prefix_tokens, 1, load::kLengthMax);
  reader.count("--prefixes", mix.prefixes, 1, 1'000'000);
  reader.share("--prefix-share", mix.prefix_share);
  reader.read("--class", mix.batch_share, parse_class);
  reader.share("--no-stream", mix.whole_share);
  reader.read("--expect", setup.expectations, load::parse_expectations);
  if (const auto read = read_profile(parsed, reader, shape); !read) return tl::make_unexpected(read.error());
  if (parsed.has("--profile")) shape.duration = shape.profile.curve.length;
  reader.duration("--duration", shape.duration);
  if (reader.error()) return tl::make_unexpected(*reader.error());
  for (const auto& [flag, time] : {std::pair{"--duration", shape.duration}, {"--timeout", setup.generator.timeout}})
    if (time.count() <= 0) return tl::make_unexpected(wrong(flag, "must be more than 0"));
  if (const auto read = read_tenants(parsed, setup, mix); !read) return tl::make_unexpected(read.error());

  dialect.endpoint = parsed.has("--completions") ? api::Endpoint::kCompletions : api::Endpoint::kChatCompletions;
  dialect.ignore_eos = !parsed.has("--stop-at-eos");
  dialect.send_class = parsed.has("--class");
  dialect.seed = shape.seed;
  dialect.host_field = setup.url.host_field();
  dialect.path_prefix = setup.url.path;
  setup.model = parsed.value_of("--model");
  setup.tls_ca = parsed.value_of("--tls-ca");
  setup.json = parsed.value_of("--json");
  setup.html = parsed.value_of("--html");

  load::RequestMix requests{mix, shape.seed};
  if (parsed.has("--trace")) {
    if (const auto used = use_trace(parsed, reader, shape, std::move(requests), setup); !used)
      return tl::make_unexpected(used.error());
  } else if (parsed.has("--concurrency")) {
    use_concurrency(parsed, shape, std::move(requests), setup);
  } else {
    use_rate(parsed, shape, std::move(requests), setup);
  }
  return setup;
}

}  // namespace penstock::cli
