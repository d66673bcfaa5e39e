#include "config/gateway_keys.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "config/option_rows.h"
#include "config/scalars.h"

namespace penstock::config {
namespace {

constexpr std::uint64_t kTokensMax = 1'000'000'000'000;

auto one_of(rows::Names names) {
  return [names = std::move(names)](std::string_view text) { return rows::parse_choice(text, names); };
}

auto count_in(std::uint64_t low, std::uint64_t high) {
  return [=](std::string_view text) { return parse_count(text, low, high); };
}
auto number_in(double low, double high) {
  return [=](std::string_view text) { return parse_number(text, low, high); };
}
core::Result<std::int32_t> tier_in(std::string_view text) {
  const bool negative = text.starts_with('-');
  const auto value = parse_count(negative ? text.substr(1) : text, 0, 1'000'000);
  if (!value) return tl::make_unexpected(value.error());
  return negative ? -static_cast<std::int32_t>(*value) : static_cast<std::int32_t>(*value);
}
core::Result<std::uint64_t> size_in(std::string_view text) {
  return parse_bytes(text, false).map([](double bytes) { return static_cast<std::uint64_t>(bytes); });
}

std::string shown(const std::string& text) { return text; }
std::string shown(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ",")); }
std::string shown(bool value) { return value ? "true" : "false"; }
std::string shown(double value) { return format_number(value); }
std::string shown(core::Duration value) { return format_duration(value); }
template <class Count>
requires std::is_integral_v<Count> std::string shown(Count value) { return std::to_string(value); }

// A scalar that `field` picks out, read by `parse`.
template <class Field, class Parse>
GatewayKey key(std::string_view group, std::string_view name, std::string_view flag, std::string_view type,
               std::string_view help, Field field, Parse parse) {
  GatewayKey made{group, name, flag, type, help, {}, {}};
  made.put = [=](GatewaySettings& settings, std::string_view text) -> core::Result<void> {
    auto value = parse(text);
    if (!value) return tl::make_unexpected(value.error());
    auto& into = field(settings);
    into = static_cast<std::remove_reference_t<decltype(into)>>(*std::move(value));
    return {};
  };
  made.show = [=](const GatewaySettings& settings) { return shown(field(settings)); };
  return made;
}

#define PENSTOCK_OF(member) \
  [](auto& settings) -> auto& { return settings.member; }

void add_addresses(std::vector<GatewayKey>& keys) {
  constexpr std::string_view kGroup = "Addresses";
  keys.push_back(key(kGroup, "gateway.listen", "--listen", "address", "where users' requests come in",
                     PENSTOCK_OF(listen), rows::parse_text));
  keys.push_back(key(kGroup, "gateway.admin_listen", "--admin-listen", "address",
                     "metrics, and what the planner asks; never for users", PENSTOCK_OF(admin_listen),
                     rows::parse_text));
  keys.push_back(key(kGroup, "gateway.threads", "--threads", "count", "of the data path; 0 is one for each core",
                     PENSTOCK_OF(threads), count_in(0, 1024)));
  keys.push_back(key(kGroup, "gateway.tls.certificate", "--tls-certificate", "text",
                     "PEM file with the certificate chain; without one, plain HTTP", PENSTOCK_OF(tls_certificate),
                     rows::parse_text));
  keys.push_back(key(kGroup, "gateway.tls.key", "--tls-key", "text", "PEM file with its key", PENSTOCK_OF(tls_key),
                     rows::parse_text));
  keys.push_back(
      key(kGroup, "gateway.body_max", "", "bytes", "longest body of a request", PENSTOCK_OF(body_bytes_max), size_in));
  keys.push_back(key(kGroup, "gateway.connections_max", "", "count", "connections of clients at once",
                     PENSTOCK_OF(connections_max), count_in(1, 1'000'000)));
}

void add_discovery(std::vector<GatewayKey>& keys) {
  constexpr std::string_view kGroup = "Replicas";
  keys.push_back(key(kGroup, "gateway.replicas_file", "--replicas-file", "list",
                     "JSON files that name replicas, followed as they change", PENSTOCK_OF(replicas_files),
                     parse_list));
  keys.push_back(key(kGroup, "gateway.replicas_dns", "--replicas-dns", "address",
                     "name and port whose addresses are the replicas", PENSTOCK_OF(replicas_dns), rows::parse_text));
  keys.push_back(key(kGroup, "gateway.dns_interval", "", "duration", "from one look-up of that name to the next",
                     PENSTOCK_OF(dns_interval), parse_duration));
  keys.push_back(key(kGroup, "gateway.health_interval", "", "duration", "from one health check to the next",
                     PENSTOCK_OF(health_interval), parse_duration));
  keys.push_back(key(kGroup, "gateway.scrape_interval", "", "duration",
                     "from one look at a replica's metrics to the next", PENSTOCK_OF(scrape_interval), parse_duration));
  keys.push_back(key(kGroup, "gateway.first_byte_time", "", "duration", "that a replica may take to begin its answer",
                     PENSTOCK_OF(first_byte_time), parse_duration));
  keys.push_back(key(kGroup, "gateway.silence", "", "duration", "that a replica may keep within an answer",
                     PENSTOCK_OF(silence), parse_duration));
}

void add_routing(std::vector<GatewayKey>& keys) {
  constexpr std::string_view kGroup = "Routing";
  keys.push_back(key(kGroup, "gateway.routing.block_tokens", "", "count",
                     "prompt tokens by which prefixes are told apart", PENSTOCK_OF(block_tokens),
                     count_in(16, 65'536)));
  keys.push_back(key(kGroup, "gateway.routing.slow_start", "", "duration",
                     "over which a new replica comes to its full share", PENSTOCK_OF(slow_start), parse_duration));
  keys.push_back(key(kGroup, "gateway.hot_prefixes", "", "boolean",
                     "keep texts of prompt beginnings that many requests share in memory, to warm new replicas up",
                     PENSTOCK_OF(hot_prefixes), parse_boolean));
  keys.push_back(
      key(kGroup, "gateway.prefix_pings", "", "boolean",
          "send them again, at one token each, to idle replicas that held them and were not asked for 2 minutes",
          PENSTOCK_OF(prefix_pings), parse_boolean));
  keys.push_back(key(kGroup, "gateway.retries", "--retries", "count",
                     "attempts after the first, on other replicas, before the first byte", PENSTOCK_OF(retries),
                     count_in(0, 10)));
  keys.push_back(key(kGroup, "gateway.retry_budget", "", "share", "of all requests that may be retried",
                     PENSTOCK_OF(retry_budget), parse_share));
  keys.push_back(key(kGroup, "gateway.breaker.failures", "", "count", "in a row that take a replica out",
                     PENSTOCK_OF(breaker_failures), count_in(1, 1000)));
  keys.push_back(key(kGroup, "gateway.breaker.time", "", "duration", "after which one request tries it again",
                     PENSTOCK_OF(breaker_time), parse_duration));
}

void add_admission(std::vector<GatewayKey>& keys) {
  constexpr std::string_view kGroup = "Admission";
  keys.push_back(key(kGroup, "gateway.anonymous", "--anonymous", "boolean",
                     "let requests without an API key in; false where there are tenants", PENSTOCK_OF(anonymous),
                     parse_boolean));
  keys.push_back(key(kGroup, "gateway.admission.kv_throttle", "", "share",
                     "KV usage of a replica from which prompts go there at a slower pace", PENSTOCK_OF(kv_throttle),
                     parse_share));
  keys.push_back(key(kGroup, "gateway.admission.kv_reject", "", "share", "and from which none does",
                     PENSTOCK_OF(kv_reject), parse_share));
  keys.push_back(key(kGroup, "gateway.admission.prefill_tokens", "", "count",
                     "uncached prompt tokens under way at one replica", PENSTOCK_OF(prefill_tokens_per_replica),
                     count_in(1, kTokensMax)));
  keys.push_back(key(kGroup, "gateway.admission.clamp_above", "", "count",
                     "waiting tokens above which max_tokens is lowered", PENSTOCK_OF(clamp_above_queue_tokens),
                     count_in(1, kTokensMax)));
  keys.push_back(key(kGroup, "gateway.admission.clamp_to", "", "count", "what it is lowered to",
                     PENSTOCK_OF(clamp_max_tokens), count_in(1, 10'000'000)));
  keys.push_back(key(kGroup, "gateway.queue_requests", "", "count", "that may wait in one class",
                     PENSTOCK_OF(queue_requests), count_in(1, 1'000'000)));
  keys.push_back(key(kGroup, "classes.interactive.queue_time", "", "duration", "that an interactive request may wait",
                     PENSTOCK_OF(interactive.queue_time), parse_duration));
  keys.push_back(key(kGroup, "classes.interactive.time_budget", "", "duration", "for a whole answer; 0s is no limit",
                     PENSTOCK_OF(interactive.time_budget), parse_duration));
  keys.push_back(key(kGroup, "classes.interactive.tokens_per_minute", "", "number",
                     "of all interactive requests together; 0 is no limit", PENSTOCK_OF(interactive.tokens_per_minute),
                     number_in(0.0, 1e12)));
  keys.push_back(key(kGroup, "classes.batch.queue_time", "", "duration", "that a batch request may wait",
                     PENSTOCK_OF(batch.queue_time), parse_duration));
  keys.push_back(key(kGroup, "classes.batch.time_budget", "", "duration", "for a whole answer; 0s is no limit",
                     PENSTOCK_OF(batch.time_budget), parse_duration));
  keys.push_back(key(kGroup, "classes.batch.tokens_per_minute", "", "number",
                     "of all batch requests together; 0 is no limit", PENSTOCK_OF(batch.tokens_per_minute),
                     number_in(0.0, 1e12)));
}

void add_rest(std::vector<GatewayKey>& keys) {
  constexpr std::string_view kGroup = "Accounting and SLO";
  keys.push_back(key(kGroup, "gateway.ledger", "--ledger", "text", "SQLite file with an entry for each request",
                     PENSTOCK_OF(ledger), rows::parse_text));
  keys.push_back(
      key(kGroup, "slo.ttft", "", "duration", "longest time to first token", PENSTOCK_OF(slo_ttft), parse_duration));
  keys.push_back(key(kGroup, "slo.itl", "", "duration", "longest mean gap between a request's tokens",
                     PENSTOCK_OF(slo_itl), parse_duration));
  keys.push_back(key(kGroup, "slo.goal", "", "share", "share of the requests that are to keep both",
                     PENSTOCK_OF(slo_goal), parse_share));
}

#undef PENSTOCK_OF

constexpr std::array<std::string_view, 4> kLists = {"gateway.replicas", "tenants", "models", "slo.segments"};

template <class Item>
void append_items(std::string& page, std::string_view list, const std::vector<ItemKey<Item>>& keys) {
  page += fmt::format(
      "\n## `{}`\n\nA list of sections, in YAML only.\n\n| key | type | default | what it says |\n"
      "|---|---|---|---|\n",
      list);
  for (const ItemKey<Item>& each : keys)
    page += fmt::format("| `{}` | {} | {} | {} |\n", each.key, each.type,
                        each.required ? "required" : fmt::format("{}", each.fallback), each.help);
}

}  // namespace

const std::vector<GatewayKey>& gateway_keys() {
  static const std::vector<GatewayKey> kKeys = [] {
    std::vector<GatewayKey> keys;
    add_addresses(keys);
    add_discovery(keys);
    add_routing(keys);
    add_admission(keys);
    add_rest(keys);
    return keys;
  }();
  return kKeys;
}

const std::vector<ItemKey<ReplicaSettings>>& replica_keys() {
  using Item = ReplicaSettings;
  static const std::vector<ItemKey<Item>> kKeys = {
      {"url", "text", "", "where it is, http://host:port", true, put_into(&Item::url, rows::parse_text)},
      {"model", "text", "", "what it serves; it is asked where this is not given", false,
       put_into(&Item::model, rows::parse_text)},
      {"role", "choice", "aggregated", "aggregated, prefill or decode", false,
       put_into(&Item::role, one_of({"aggregated", "prefill", "decode"}))},
      {"weight", "number", "1", "its share against the others", false, put_into(&Item::weight, number_in(0.01, 100.0))},
      {"kv_events", "text", "", "ZeroMQ endpoint of its KV events", false,
       put_into(&Item::kv_events, rows::parse_text)}};
  return kKeys;
}

const std::vector<ItemKey<TenantSettings>>& tenant_keys() {
  using Item = TenantSettings;
  static const std::vector<ItemKey<Item>> kKeys = {
      {"name", "text", "", "what ledgers and metrics call it", true, put_into(&Item::name, rows::parse_text)},
      {"keys", "list", "", "its API keys", false, put_into(&Item::keys, parse_list)},
      {"key_files", "list", "", "files that hold one API key each", false, put_into(&Item::key_files, parse_list)},
      {"key_envs", "list", "", "environment variables that hold one API key each", false,
       put_into(&Item::key_envs, parse_list)},
      {"weight", "number", "1", "its share while others wait, too", false,
       put_into(&Item::weight, number_in(0.001, 1000.0))},
      {"tier", "count", "0", "a higher one is let in first; may be negative", false, put_into(&Item::tier, tier_in)},
      {"tokens_per_minute", "number", "0", "its budget, prompt and output together; 0 is no limit", false,
       put_into(&Item::tokens_per_minute, number_in(0.0, 1e12))},
      {"burst", "number", "a minute's", "most that can be saved up", false,
       put_into(&Item::burst_tokens, number_in(0.0, 1e12))},
      {"over_budget", "choice", "reject", "reject, or queue until there is budget", false,
       put_into(&Item::over_budget, one_of({"reject", "queue"}))},
      {"concurrent", "count", "0", "requests at once; 0 is no limit", false,
       put_into(&Item::concurrent, count_in(0, 1'000'000))},
      {"context", "count", "the model's", "most tokens of prompt and output together", false,
       put_into(&Item::context_tokens, count_in(1, 100'000'000))},
      {"models", "list", "all", "that it may use", false, put_into(&Item::models, parse_list)},
      {"class", "choice", "interactive", "traffic class of requests that do not say one", false,
       put_into(&Item::traffic_class, one_of({"interactive", "batch"}))}};
  return kKeys;
}

const std::vector<ItemKey<ModelSettings>>& model_keys() {
  using Item = ModelSettings;
  static const std::vector<ItemKey<Item>> kKeys = {
      {"name", "text", "", "as requests name it", true, put_into(&Item::name, rows::parse_text)},
      {"input_price", "number", "0", "of a million prompt tokens", false,
       put_into(&Item::input_price, number_in(0.0, 1e9))},
      {"cached_input_price", "number", "0", "of a million prompt tokens that were in a cache", false,
       put_into(&Item::cached_input_price, number_in(0.0, 1e9))},
      {"output_price", "number", "0", "of a million output tokens", false,
       put_into(&Item::output_price, number_in(0.0, 1e9))},
      {"context", "count", "131072", "most tokens of prompt and output together", false,
       put_into(&Item::context_tokens, count_in(1, 100'000'000))}};
  return kKeys;
}

std::vector<std::string_view> gateway_names() {
  std::vector<std::string_view> names;
  for (const GatewayKey& each : gateway_keys()) names.push_back(each.key);
  names.insert(names.end(), kLists.begin(), kLists.end());
  return names;
}

std::string gateway_options_markdown() {
  const GatewaySettings defaults;
  std::string page =
      "# Options of the gateway\n\nWritten by `penstock gateway --options-markdown`. What a flag says counts more than "
      "the file.\n";
  std::string_view group;
  for (const GatewayKey& each : gateway_keys()) {
    if (each.group != group)
      page +=
          fmt::format("\n## {}\n\n| key | flag | type | default | what it says |\n|---|---|---|---|---|\n", each.group);
    group = each.group;
    const std::string fallback = each.show(defaults);
    page +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", each.key, each.flag.empty() ? "" : fmt::format("`{}`", each.flag),
                    each.type, fallback.empty() ? "" : fmt::format("`{}`", fallback), each.help);
  }
  append_items(page, kLists[0], replica_keys());
  append_items(page, kLists[1], tenant_keys());
  append_items(page, kLists[2], model_keys());
  page += "\n`slo.segments` are those of [replay-options.md](replay-options.md).\n";
  return page;
}

}  // namespace penstock::config
