#include "cli/gateway_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <tuple>
#include <utility>

#include "cli/console.h"
#include "connect/sqlite/ledger_writer.h"
#include "gateway/keys.h"
#include "net/loop.h"
#include "net/self_signed.h"
#include "net/tls.h"
#include "net/unix_time.h"
#include "options/scalars.h"
#include "options/yaml.h"

namespace penstock::cli {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

// The option of an API key, as it is in the file: a list of one item may be written without brackets.
std::string place_of_key(const std::string& option, const options::Reading& reading) {
  return reading.first_given({option, option.substr(0, option.rfind('[')), option});
}

// The key of a file, or of an environment variable.
core::Result<std::string> key_in_file(const std::string& file) {
  return options::read_text_file(file, options::kApiKeyBytesMax).map([](std::string&& text) {
    return trimmed(std::move(text));
  });
}
core::Result<std::string> key_in_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0')
    return core::invalid_input({}, "the environment variable " + options::quote(name) + " is not set");
  return std::string{value};
}

// Adds the keys of a tenant. A key is named after its place: its index in `keys`, its file or its variable.
void add_keys(const configuration::TenantOptions& tenant, std::uint32_t number, std::vector<gateway::ApiKey>& keys,
              options::Reading& reading) {
  const auto add = [&](const core::Result<std::string>& key, const char* list, std::size_t index,
                       const std::string& name) {
    const std::string place = fmt::format("{}[{}]", list, index);
    const std::string option = fmt::format("tenants[{}].{}", number, place);
    if (key)
      keys.push_back({*key, number, name.empty() ? place : name, option});
    else
      reading.report(place_of_key(option, reading), key.error().message());
  };
  for (std::size_t i = 0; i < tenant.keys.size(); ++i) add(tenant.keys[i], "keys", i, {});
  for (std::size_t i = 0; i < tenant.key_files.size(); ++i)
    add(key_in_file(tenant.key_files[i]), "key_files", i, tenant.key_files[i]);
  for (std::size_t i = 0; i < tenant.key_envs.size(); ++i)
    add(key_in_variable(tenant.key_envs[i]), "key_envs", i, tenant.key_envs[i]);
}

std::int64_t unix_ms_now() { return std::chrono::duration_cast<std::chrono::milliseconds>(net::unix_time()).count(); }

std::optional<connect::BootTime> boot_time() {
  connect::BootTime made;
  std::ifstream file{"/proc/sys/kernel/random/boot_id"};
  timespec time{};
  if (!std::getline(file, made.boot) || clock_gettime(CLOCK_BOOTTIME, &time) != 0) return std::nullopt;
  made.ms = std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
  return made;
}

class Ledger final : public dispatch::LedgerSink {
 public:
  Ledger(std::string path, connect::LedgerStore store, const connect::LedgerWriterOptions& options, logging::Log& log,
         std::shared_ptr<std::uint64_t> lost)
      : path_(std::move(path)),
        log_(log),
        lost_(std::move(lost)),
        writer_(std::move(store), options, [this](const std::string& message) { report(message); }) {}
  ~Ledger() override { *lost_ = writer_.stop().lost_at_stop; }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  [[nodiscard]] gateway::LedgerHealth health() const {
    const connect::LedgerWriter::State state = writer_.state();
    return {state.writable, state.waiting, state.dropped};
  }
  std::optional<std::uint64_t> first_entry() const override { return writer_.first_id(); }
  void opened(const ledger::Entry& entry) override { writer_.opened(entry); }
  void grown(const ledger::Entry& entry) override { writer_.grown(entry); }
  void closed(const ledger::Entry& entry) override { writer_.closed(entry); }

  std::vector<ledger::PastUse> uses_since(std::int64_t unix_ms) override {
    constexpr std::int64_t kSlices = 1000, kShortestSliceMs = 100;
    const std::int64_t slice_ms = std::max(kShortestSliceMs, (unix_ms_now() - unix_ms) / kSlices);
    // The writer's connection belongs to its thread.
    const auto store = connect::LedgerStore::open_read_only(path_);
    auto uses = store ? store->uses_since(unix_ms, slice_ms) : tl::make_unexpected(store.error());
    if (uses) return *std::move(uses);
    log_.write(logging::Event::kBudgetsFull, {{"cause", uses.error().message()}});
    return {};
  }

 private:
  void report(const std::string& message) { log_.write(logging::Event::kLedger, {{"message", message}}); }

  const std::string path_;
  logging::Log& log_;
  const std::shared_ptr<std::uint64_t> lost_;
  connect::LedgerWriter writer_;
};

void add_peer_tls(const configuration::GatewaySetup& setup, gateway::PeerOptions& made, options::Reading& reading) {
  bool needs_tls = false;
  for (const std::string& text : made.urls) {
    const auto url = net::parse_url(text);
    if (!url)
      reading.report("gateway.peers", url.error().message());
    else if (!url->path.empty())
      reading.report("gateway.peers", options::quote(text) + " has a path", "write http://host:port");
    needs_tls = needs_tls || (url && url->tls);
  }
  if (!needs_tls) return;
  if (auto context = net::TlsContext::client(setup.peer_ca_file))
    made.tls = *std::move(context);
  else
    reading.report(reading.first_given({"gateway.peer_ca_file", "gateway.peers"}), context.error().message());
}

void add_tls(const configuration::GatewaySetup& setup, gateway::GatewayOptions& made, options::Reading& reading) {
  if (!setup.tls_certificate.empty() && !setup.tls_key.empty()) {
    if (auto context = net::TlsContext::server(setup.tls_certificate, setup.tls_key))
      made.tls = *std::move(context);
    else
      reading.report("gateway.tls.certificate", context.error().message());
  }
  const configuration::AccessSetup& admin = setup.admin;
  bool has_tokens = true;
  for (const auto& [path, file, variable] : {std::tuple{"gateway.admin_token_file", admin.token_file, std::string{}},
                                             {"gateway.admin_token_env", std::string{}, admin.token_env}})
    if (const auto tokens = read_tokens(file, variable); !tokens) {
      has_tokens = false;
      reading.report(path, tokens.error().message());
    }
  if (!has_tokens || admin.tls_certificate.empty() != admin.tls_key.empty()) return;
  if (auto access = make_access(admin)) {
    made.admin_access = std::move(access->options);
    made.admin_tls = std::move(access->tls);
  } else {
    reading.report("gateway.admin_tls.certificate", access.error().message());
  }
}

void add_endpoint_picker(const configuration::EndpointPickerSetup& setup, gateway::GatewayOptions& made,
                         options::Reading& reading) {
  if (setup.listen.empty()) return;
  gateway::EndpointPickerOptions picker;
  const auto listen = parse_listen(setup.listen, "gateway.endpoint_picker.listen");
  if (!listen) return reading.report("gateway.endpoint_picker.listen", listen.error());
  picker.listen = *listen;
  if (!setup.health_listen.empty()) {
    const auto health = parse_listen(setup.health_listen, "gateway.endpoint_picker.health_listen");
    if (!health) return reading.report("gateway.endpoint_picker.health_listen", health.error());
    picker.health_listen = *health;
  }
  if (setup.tls && setup.certificate.empty() != setup.key.empty()) return;
  if (setup.tls) {
    net::CertificateAndKey pems{setup.certificate, setup.key};
    if (setup.certificate.empty()) {
      auto self_signed = net::self_signed_certificate("penstock-epp");
      if (!self_signed) return reading.report("gateway.endpoint_picker.tls", self_signed.error().message());
      pems = *std::move(self_signed);
    }
    auto context = net::TlsContext::server(pems.certificate, pems.key);
    if (!context) return reading.report("gateway.endpoint_picker.certificate", context.error().message());
    made.endpoint_picker_tls = *std::move(context);
    made.endpoint_picker_tls->use_http2();
  }
  made.endpoint_picker = std::move(picker);
}

void add_warm_up_prompts(const std::string& file, gateway::GatewayOptions& made, options::Reading& reading) {
  if (file.empty()) return;
  constexpr std::size_t kPromptsBytesMax = std::size_t{8} << 20;
  auto prompts = options::read_text_file(file, kPromptsBytesMax).and_then([&](const std::string& text) {
    return gateway::parse_warm_up_prompts(text, file);
  });
  if (prompts)
    made.warm_up_prompts = *std::move(prompts);
  else
    reading.report("gateway.warm_up_prompts", prompts.error().message());
}

// Reports each API key that is empty or given twice.
void check_api_keys(const gateway::GatewayOptions& options, options::Reading& reading) {
  gateway::KeyRing ring;
  const auto name_of = [&](std::uint32_t tenant) { return options.dispatch.tenants.at(tenant).name; };
  for (const gateway::ApiKey& key : options.api_keys) {
    const std::string place = place_of_key(key.option, reading);
    if (const gateway::KeyOwner* first = ring.owner_of(key.key))
      reading.report(place,
                     fmt::format("an API key is given twice: to tenant {}, and to tenant {} as {}", name_of(key.tenant),
                                 name_of(first->tenant), first->name),
                     "give each tenant keys of its own");
    else if (auto added = ring.add(key.key, {key.tenant, key.option}); !added)
      reading.report(place, std::move(added.error()));
  }
}

}  // namespace

bool has_budgets(const dispatch::DispatchOptions& options) {
  return options.interactive.budget.limited() || options.batch.budget.limited() ||
         std::any_of(options.tenants.begin(), options.tenants.end(),
                     [](const dispatch::Tenant& tenant) { return tenant.budget.limited(); });
}

core::Result<std::vector<std::string>> read_tokens(const std::string& file, const std::string& variable) {
  std::string all;
  if (!file.empty()) {
    auto text = options::read_text_file(file, options::kApiKeyBytesMax);
    if (!text) return tl::make_unexpected(text.error());
    all = *std::move(text) + "\n";
  }
  if (!variable.empty()) {
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) return core::invalid_input(variable, "the environment variable is not set");
    all += value;
  }
  std::vector<std::string> tokens;
  std::istringstream lines{all};
  for (std::string line; std::getline(lines, line);)
    if (line = trimmed(std::move(line)); !line.empty()) tokens.push_back(std::move(line));
  if (tokens.empty() && !(file.empty() && variable.empty()))
    return core::invalid_input(file.empty() ? variable : file, "has no token", "write one on a line");
  return tokens;
}

core::Result<Access> make_access(const configuration::AccessSetup& setup) {
  Access made;
  auto tokens = read_tokens(setup.token_file, setup.token_env);
  if (!tokens) return tl::make_unexpected(tokens.error());
  made.options = {setup.hosts, *std::move(tokens), !setup.client_ca.empty(), setup.token_guards_all};
  if (setup.tls_certificate.empty()) return made;
  auto context = net::TlsContext::server(setup.tls_certificate, setup.tls_key, setup.client_ca);
  if (!context) return tl::make_unexpected(context.error());
  made.tls = *std::move(context);
  return made;
}

void warn_if_exposed(logging::Log& log, std::string_view purpose, const net::Address& address,
                     const net::AccessOptions& access) {
  if (net::is_loopback(address) || access.authenticates()) return;
  log.write(logging::Event::kExposed, {{"purpose", purpose}, {"address", address.text()}});
}

gateway::GatewayOptions make_gateway_options(const configuration::GatewaySetup& setup, options::Reading& reading) {
  gateway::GatewayOptions made = setup.options;
  if (made.threads == 0) made.threads = std::max(1U, std::thread::hardware_concurrency());
  add_tls(setup, made, reading);
  add_endpoint_picker(setup.endpoint_picker, made, reading);
  add_peer_tls(setup, made.peers, reading);
  for (std::size_t i = 0; i < setup.tenants.size(); ++i)
    add_keys(setup.tenants[i], static_cast<std::uint32_t>(i), made.api_keys, reading);
  check_api_keys(made, reading);
  if (setup.prefix_pings) made.prefix_pings.emplace().idle = setup.prefix_ping_interval;
  add_warm_up_prompts(setup.warm_up_prompts, made, reading);
  // Request ids differ from run to run.
  made.dispatch.seed = static_cast<std::uint64_t>(net::unix_time().count());
  return made;
}

std::vector<std::string> watched_files(const std::string& config_file, const configuration::GatewaySetup& setup) {
  std::vector<std::string> files;
  const configuration::AccessSetup& admin = setup.admin;
  for (const std::string& file :
       {config_file, setup.tls_certificate, setup.tls_key, setup.endpoint_picker.certificate, setup.endpoint_picker.key,
        admin.token_file, admin.tls_certificate, admin.tls_key, admin.client_ca})
    if (!file.empty() && file != "-") files.push_back(file);
  for (const configuration::TenantOptions& tenant : setup.tenants)
    files.insert(files.end(), tenant.key_files.begin(), tenant.key_files.end());
  const auto add = [&](const net::CredentialOptions& credentials) {
    for (const std::string& file :
         {credentials.api_key_file, credentials.ca_file, credentials.certificate, credentials.key_file})
      if (!file.empty()) files.push_back(file);
  };
  add(setup.discovery.credentials);
  for (const gateway::NamedReplica& replica : setup.discovery.replicas) add(replica.credentials);
  return files;
}

core::Result<OpenedLedger> open_ledger(const configuration::GatewaySetup& setup, logging::Log& log) {
  const auto lost = std::make_shared<std::uint64_t>(0);
  if (setup.ledger.empty()) {
    if (has_budgets(setup.options.dispatch))
      log.write(logging::Event::kBudgetsFull, {{"cause", "there is no ledger; set gateway.ledger"}});
    return OpenedLedger{{}, {}, lost};
  }
  connect::LedgerOptions options;
  options.now_unix_ms = unix_ms_now();
  options.boot_time = boot_time();
  auto store = connect::LedgerStore::open(setup.ledger, options);
  if (!store) return tl::make_unexpected(store.error());
  connect::LedgerWriterOptions writer;
  writer.keep = setup.ledger_retention;
  auto ledger = std::make_unique<Ledger>(setup.ledger, *std::move(store), writer, log, lost);
  std::function<gateway::LedgerHealth()> health = [opened = ledger.get()] { return opened->health(); };
  return OpenedLedger{std::move(ledger), std::move(health), lost};
}

core::Result<std::unique_ptr<gateway::TrafficRecorder>> open_recorder(const configuration::GatewaySetup& setup,
                                                                      const gateway::Gateway& served,
                                                                      logging::Log& log) {
  if (setup.record.empty()) return std::unique_ptr<gateway::TrafficRecorder>{};
  gateway::RecorderOptions options;
  options.file = setup.record;
  options.bytes_max = static_cast<std::uint64_t>(setup.record_bytes_max);
  options.block_tokens = setup.options.dispatch.key_tokens;
  const core::Duration unix_at_start = net::unix_time() - net::Loop::read_clock().time_since_epoch();
  return gateway::TrafficRecorder::start(
      options, unix_at_start,
      [&served](std::uint64_t after, std::size_t events_max) { return served.traffic(after, events_max); }, log);
}

namespace {

bool is_wildcard(const net::Address& address) {
  const std::string text = address.text();
  return text.starts_with("0.0.0.0:") || text.starts_with("[::]:");
}

}  // namespace

void check_addresses(const configuration::GatewaySetup& setup, options::Reading& reading, bool serves_http) {
  struct Listening {
    std::string path, text;
    net::Address address;
  };
  std::vector<Listening> all;
  const auto add = [&](const char* path, const std::string& text) {
    if (const auto address = parse_listen(text, path))
      all.push_back({path, text, *address});
    else
      reading.report(path, address.error());
  };
  if (serves_http) add("gateway.listen", setup.listen);
  add("gateway.admin_listen", setup.admin_listen);
  const configuration::EndpointPickerSetup& picker = setup.endpoint_picker;
  if (!picker.listen.empty()) add("gateway.endpoint_picker.listen", picker.listen);
  if (!picker.listen.empty() && !picker.health_listen.empty())
    add("gateway.endpoint_picker.health_listen", picker.health_listen);
  if (!setup.discovery.dns.empty())
    if (const auto name = gateway::parse_replicas_dns(setup.discovery.dns); !name)
      reading.report("gateway.replicas_dns", name.error());
  for (std::size_t i = 1; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const net::Address &one = all[i].address, &other = all[j].address;
      if (one.port() != other.port() || one.port() == 0) continue;
      if (one == other || is_wildcard(one) || is_wildcard(other))
        reading.report(all[i].path, fmt::format("must have another port than {} ({}), is {}", all[j].path, all[j].text,
                                                options::quote(all[i].text)));
    }
}

core::Result<net::Address> parse_listen(const std::string& text, std::string_view where) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? core::Result<std::uint64_t>{core::invalid_input({}, "")}
                                               : options::parse_count(text.substr(colon + 1), 0, UINT16_MAX);
  if (!port)
    return core::invalid_input(std::string{where}, "must be address:port, is " + options::quote(text),
                               "as 127.0.0.1:8000, or :8000 for all addresses");
  std::string host = text.substr(0, colon);
  if (host.empty()) host = "0.0.0.0";
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  auto address = net::Address::parse(host, static_cast<std::uint16_t>(*port));
  if (!address) {
    core::Error error = address.error();
    error.where = where;
    return tl::make_unexpected(std::move(error));
  }
  return address;
}

}  // namespace penstock::cli
