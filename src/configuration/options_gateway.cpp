// Options of the gateway: addresses, replicas, tenants, models, classes, admission, routing.
#include "configuration/configuration.h"
#include "options/values.h"

namespace penstock::configuration {
namespace {

using namespace options;

constexpr std::size_t kItemsMax = 10'000;
constexpr std::uint32_t kWorkersMax = 100'000;
constexpr std::uint64_t kTokensMax = 1'000'000'000'000;

void add_addresses(Table& table, GatewaySetup& setup) {
  table.group("Addresses");
  table.add({"gateway.listen", "--listen", "address of the OpenAI API"}, address(setup.listen));
  table.add(
      {"gateway.admin_listen", "--admin-listen", "address of the metrics and of the planner's feed, for operators"},
      address(setup.admin_listen));
  AccessSetup& admin = setup.admin;
  table
      .add({"gateway.admin_hosts", "--admin-hosts",
            "host names of the admin address; its own address, loopback and localhost always work"},
           names(admin.hosts))
      .reloadable();
  table
      .add({"gateway.admin_token_file", "--admin-token-file",
            "file with the token of the admin address; /health and /ready need none"},
           text(admin.token_file))
      .reloadable();
  table
      .add({"gateway.admin_token_env", "", "environment variable with the token of the admin address"},
           text(admin.token_env))
      .reloadable();
  table
      .add({"gateway.admin_token_guards", "--admin-token-guards",
            "all paths of the admin address, or prompts only: /penstock/v1/prefixes"},
           named_choice(admin.token_guards_all, {{"all", true}, {"prompts", false}}))
      .reloadable();
  table
      .add({"gateway.admin_tls.certificate", "",
            "PEM file with the certificate chain of the admin address; without one it serves plain HTTP"},
           text(admin.tls_certificate))
      .reloadable();
  table.add({"gateway.admin_tls.key", "", "PEM file with the key of that certificate"}, text(admin.tls_key))
      .reloadable();
  table
      .add({"gateway.admin_tls.client_ca", "",
            "PEM file that verifies certificates of clients of the admin address; one authenticates like a token"},
           text(admin.client_ca))
      .reloadable();
  table.add({"gateway.threads", "--threads", "threads of the data path; 0 is one for each core"},
            count(setup.options.threads, 0, 1024));
  table
      .add({"gateway.tls.certificate", "--tls-certificate",
            "PEM file with the certificate chain; without one the gateway serves plain HTTP"},
           text(setup.tls_certificate))
      .reloadable();
  table.add({"gateway.tls.key", "--tls-key", "PEM file with the key of the certificate"}, text(setup.tls_key))
      .reloadable();
  table.add({"gateway.body_max", "", "longest body of a request; at most 64 MiB"},
            bytes(setup.options.server.body_bytes));
  table.add({"gateway.memory_max", "",
             "most memory for the bodies of requests, their copies and unsent answers; by default half of what the "
             "control group, the limit of the address space or the machine allows"},
            bytes(setup.options.memory_max));
  table.add({"gateway.tenant_memory_share", "", "share of that memory that one tenant may hold"},
            share(setup.options.tenant_memory_share, 0.01));
  table.add({"gateway.large_body_threads", "", "bodies above 256 KiB that are parsed at once, beside the data path"},
            count(setup.options.large_body_threads, 1, 64));
  table.add({"gateway.connections_max", "", "connections of clients at once"},
            count(setup.options.server.connections, 1, 1'000'000));
}

void add_operation(Table& table, GatewaySetup& setup) {
  table.group("Operation");
  table
      .add({"gateway.watch", "", "read the configuration, keys and certificates again when their files change"},
           boolean(setup.watch))
      .reloadable();
  table
      .add({"gateway.drain_delay", "--drain-delay",
            "time after SIGTERM in which /ready answers 503 and new connections are still accepted"},
           duration(setup.drain_delay))
      .reloadable();
  table
      .add({"gateway.drain_time", "--drain-time",
            "longest time from SIGTERM or SIGINT to the end; requests that are open then are cut"},
           duration(setup.drain_time))
      .reloadable();
}

struct CredentialNames {
  Names api_key_env, api_key_file, headers, ca_file, certificate, key;
};

void add_credentials(Table& table, net::CredentialOptions& credentials, const CredentialNames& names) {
  table.add(names.api_key_env, text(credentials.api_key_env)).reloadable();
  table.add(names.api_key_file, text(credentials.api_key_file)).reloadable();
  table.add(names.headers, texts(credentials.headers)).secret().reloadable();
  table.add(names.ca_file, text(credentials.ca_file)).reloadable();
  table.add(names.certificate, text(credentials.certificate)).reloadable();
  table.add(names.key, text(credentials.key_file)).reloadable();
}

void add_replica(Table& table, gateway::NamedReplica& replica) {
  table.add({"url", "", "URL of the replica, http://host:port"}, text(replica.url)).required();
  table.add({"model", "", "model that the replica serves; by default the gateway requests its name from the replica"},
            text(replica.model));
  table.add({"pool", "", "pool that the replica belongs to, by the name in `pools`"}, text(replica.pool));
  table.add({"role", "", "aggregated, prefill or decode"},
            choice(replica.role, {signals::Role::kAggregated, signals::Role::kPrefill, signals::Role::kDecode}));
  table.add({"weight", "", "share of the traffic relative to the others"}, number(replica.weight, 0.01, 100.0));
  table.add(
      {"workers", "",
       "workers behind the URL of a router or front end, by which the limits of a replica are multiplied; 0: what "
       "it reports, as Dynamo's front end does, or 1"},
      count(replica.workers, 0, kWorkersMax));
  table.add({"kv_events", "", "ZeroMQ endpoint of its KV events"}, text(replica.kv_events));
  table.add({"kv_events_replay", "",
             "ZeroMQ endpoint where missed KV events are requested again, vLLM's and SGLang's replay_endpoint"},
            text(replica.kv_events_replay));
  table.add(
      {"fpm", "",
       "ZeroMQ endpoints of its forward pass metrics, which planners subscribe to; engines of Penstock name theirs"},
      names(replica.fpm));
  add_credentials(
      table, replica.credentials,
      {{"api_key_env", "", "environment variable with its API key, instead of that of gateway.credentials"},
       {"api_key_file", "", "file with its API key, instead of that of gateway.credentials"},
       {"headers", "", "header fields for it, each as \"Name: value\", instead of those of gateway.credentials"},
       {"ca_file", "", "PEM file of the certificates that its https certificate is verified with"},
       {"certificate", "", "PEM file of the gateway's certificate for it"},
       {"key", "", "PEM file of the key of that certificate"}});
}

void add_replicas(Table& table, GatewaySetup& setup) {
  table.group("Replicas");
  table
      .list<gateway::NamedReplica>({"gateway.replicas", "", "replicas; URLs on the command line replace them"},
                                   setup.discovery.replicas, kItemsMax, add_replica)
      .reloadable();
  table
      .add({"gateway.replicas_file", "--replicas-file", "JSON files that name replicas, followed as they change"},
           names(setup.discovery.files))
      .reloadable();
  add_credentials(
      table, setup.discovery.credentials,
      {{"gateway.credentials.api_key_env", "",
        "environment variable with the API key that replicas get with requests, health checks and scrapes"},
       {"gateway.credentials.api_key_file", "--replica-key-file", "file with the API key that replicas get"},
       {"gateway.credentials.headers", "", "further header fields for replicas, each as \"Name: value\""},
       {"gateway.credentials.ca_file", "--replica-ca",
        "PEM file of the certificates that replicas with https are verified with; by default those of the system"},
       {"gateway.credentials.certificate", "", "PEM file of the gateway's certificate for replicas that require one"},
       {"gateway.credentials.key", "", "PEM file of the key of that certificate"}});
  table.add({"gateway.replicas_dns", "--replicas-dns", "name and port whose addresses are the replicas"},
            address(setup.discovery.dns));
  table.add({"gateway.dns_interval", "", "from one lookup of a host name of replicas to the next"},
            duration_above_zero(setup.discovery.dns_interval));
  gateway::PodOptions& pods = setup.discovery.pods;
  table.add({"gateway.kubernetes.selector", "--endpoint-selector",
             "label selector of the pods that are the replicas, such as app=vllm"},
            text(pods.selector));
  table.add({"gateway.kubernetes.service", "",
             "name of a Service whose endpoints are the replicas; with a selector, its pods add roles, pools and "
             "the marks of planners"},
            text(pods.service));
  table.add(
      {"gateway.kubernetes.port_name", "",
       "name of the Service's port; by default its only port, or the one with the number gateway.kubernetes.port"},
      text(pods.port_name));
  table.add({"gateway.kubernetes.inference_pool", "--pool-name",
             "name of an InferencePool whose pods and ports are the replicas; instead of a selector or Service"},
            text(pods.inference_pool));
  table.add({"gateway.kubernetes.inference_pool_group", "--pool-group", "API group of that InferencePool"},
            text_choice(pods.inference_pool_group, {connect::kInferencePoolGroup, connect::kInferencePoolOldGroup}));
  table.add({"gateway.kubernetes.namespace", "--pool-namespace",
             "namespace of these pods; by default that of the kubeconfig or of the gateway's own pod"},
            text(pods.in_namespace));
  table.add({"gateway.kubernetes.port", "", "port of the engine in each of these pods"},
            count(pods.port, 1, UINT16_MAX));
  table.add({"gateway.kubernetes.ports", "--endpoint-target-ports",
             "ports of several engines in each of these pods, each of them a replica; instead of port"},
            counts(pods.ports, 1, UINT16_MAX));
  table.add({"gateway.kubernetes.pool_label", "",
             "label of a pod that names its pool in `pools`; a pod without it belongs to the pool default"},
            text(pods.pool_label));
  table.add({"gateway.kubernetes.kubeconfig", "",
             "file that says how to reach the API server; by default that of KUBECONFIG, the service account of the "
             "gateway's own pod, or ~/.kube/config"},
            text(pods.kubeconfig));
  gateway::GatewayOptions& options = setup.options;
  table.add({"gateway.health_interval", "", "from one health check to the next"},
            duration_above_zero(options.health_interval));
  table.add({"gateway.scrape_interval", "", "from one scrape of the metrics of a replica to the next"},
            duration_above_zero(options.scrape_interval));
  table
      .add({"gateway.first_byte_timeout", "", "longest time until a replica begins its answer"},
           duration_above_zero(options.dispatch.first_byte_timeout))
      .reloadable();
  table
      .add({"gateway.stream_idle_timeout", "", "longest time between two pieces of an answer"},
           duration_above_zero(options.dispatch.stream_idle_timeout))
      .reloadable();
  table
      .add({"gateway.unresponsive_idle_timeout", "",
            "longest time between two pieces of an answer of a replica that is unresponsive"},
           duration_above_zero(options.dispatch.unresponsive_idle_timeout))
      .reloadable();
  table.renamed("gateway.first_byte_time", "gateway.first_byte_timeout");
  table.renamed("gateway.silence", "gateway.stream_idle_timeout");
}

void add_forwarding(Table& table, gateway::GatewayOptions& options) {
  using dispatch::Isolation;
  using gateway::ExposeRouting;
  table.group("Forwarding");
  table
      .add({"gateway.forward_headers", "", "header fields that are forwarded to replicas besides the usual ones"},
           names(options.forward.headers))
      .reloadable();
  table
      .add({"gateway.forward_fields", "",
            "body fields that control engines, such as priority or kv_transfer_params, and are forwarded anyway"},
           names(options.forward.fields))
      .reloadable();
  table
      .add({"gateway.strict", "",
            "reject requests with header or body fields that control engines instead of dropping the fields"},
           boolean(options.forward.strict))
      .reloadable();
  table
      .add({"gateway.engine_priority", "",
            "engines schedule by priority: send them the priority of the tenant with each request"},
           boolean(options.engine_priority))
      .reloadable();
  table
      .add({"gateway.isolation", "", "tenant: tenants share no prefix cache, so that none can probe what others sent"},
           choice(options.isolation, {Isolation::kNone, Isolation::kTenant}))
      .reloadable();
  table
      .add({"gateway.expose_routing", "--expose-routing",
            "who gets x-penstock-replica and x-penstock-route in answers: never, operators or always"},
           choice(options.expose_routing, {ExposeRouting::kNever, ExposeRouting::kOperators, ExposeRouting::kAlways}))
      .placeholder("WHO")
      .reloadable();
}

void add_routing(Table& table, GatewaySetup& setup) {
  table.group("Routing");
  gateway::GatewayOptions& options = setup.options;
  dispatch::DispatchOptions& dispatch = options.dispatch;
  table.add({"gateway.routing.block_tokens", "", "prompt tokens of one block of a prefix"},
            count(dispatch.key_tokens, 16, 65'536));
  table.add({"gateway.routing.slow_start", "", "time over which a new replica reaches its full share"},
            duration(dispatch.picker.slow_start));
  table.add({"gateway.hot_prefixes", "",
             "keep texts of prompt beginnings that many requests share in memory, to warm new replicas up"},
            boolean(options.hot_prefixes));
  table.add({"gateway.prefix_pings", "",
             "send them again, at one token each, to idle replicas that held them and did not get them for a while"},
            boolean(setup.prefix_pings));
  table.add({"gateway.prefix_ping_interval", "", "time after which a replica that did not get a prefix gets it again"},
            duration_above_zero(setup.prefix_ping_interval));
  table.add(
      {"gateway.warm_up", "",
       "replicas that are added later answer gateway.warm_up_prompts and the hot prefixes before they get requests"},
      boolean(options.warm_up));
  table.add({"gateway.warm_up_prompts", "", "file with the body of a request on each line; see gateway.warm_up"},
            text(setup.warm_up_prompts));
  table.add({"gateway.warm_up_time", "", "longest warm-up of a replica by the gateway"},
            duration_above_zero(options.warm_up_time));
  table
      .add({"gateway.retries", "--retries", "attempts after the first, on other replicas, before the first byte"},
           count(dispatch.retries, 0, 10))
      .reloadable();
  table
      .add({"gateway.retry_budget", "", "retries as a share of the requests of the last minute; ten more are allowed"},
           share(dispatch.retry_share))
      .reloadable();
  table
      .add({"gateway.request_usage", "",
            "request the usage of every stream from engines (stream_options.include_usage); clients get it on request"},
           boolean(options.request_usage))
      .reloadable();
  dispatch::CircuitBreakerOptions& breaker = dispatch.circuit_breaker;
  table
      .add({"gateway.breaker.failures", "", "consecutive failed attempts that eject a replica"},
           count(breaker.failures, 1, 1000))
      .reloadable();
  table
      .add({"gateway.breaker.time", "", "time after which one request tries an ejected replica; doubles each time"},
           duration(breaker.open))
      .reloadable();
  table.add({"gateway.breaker.time_max", "", "longest time of an ejection"}, duration(breaker.open_max)).reloadable();
  table
      .add({"gateway.breaker.ejected_max", "", "share of a model's replicas that may be ejected; one is never ejected"},
           share(breaker.ejected_max))
      .reloadable();
  table
      .add({"gateway.breaker.window", "", "time over which the success rate of a replica is measured"},
           duration_above_zero(breaker.window))
      .reloadable();
  table
      .add({"gateway.breaker.window_requests", "", "attempts within the window below which it has no success rate"},
           count(breaker.window_requests, 1, 100'000))
      .reloadable();
  table
      .add({"gateway.breaker.success_min", "", "success rate below which a replica is ejected"},
           share(breaker.success_min))
      .reloadable();
  table
      .add({"gateway.breaker.deviations", "",
            "standard deviations below the success rates of the other replicas that eject a replica"},
           number(breaker.deviations, 0.0, 100.0))
      .reloadable();
}

void add_admission(Table& table, GatewaySetup& setup) {
  table.group("Admission");
  gateway::GatewayOptions& options = setup.options;
  table
      .add({"gateway.anonymous", "--anonymous", "admit requests without an API key; false where there are tenants"},
           boolean(options.anonymous))
      .reloadable();
  dispatch::DispatchOptions& dispatch = options.dispatch;
  admission::PressureLimits& pressure = dispatch.pressure;
  table
      .add({"gateway.admission.kv_throttle", "", "KV usage of a replica above which prompts are sent at a lower rate"},
           share(pressure.kv_throttle))
      .reloadable();
  table
      .add({"gateway.admission.kv_reject", "", "KV usage of a replica from which no prompts are sent"},
           share(pressure.kv_reject))
      .reloadable();
  table
      .add({"gateway.admission.prefill_tokens", "", "uncached prompt tokens in flight at one worker of a replica"},
           count(pressure.prefill_tokens_per_replica, 1, kTokensMax))
      .reloadable();
  table
      .add({"gateway.admission.throttled_share", "", "share of these tokens while KV usage is above kv_throttle"},
           share(pressure.throttled_share))
      .reloadable();
  table
      .add({"gateway.admission.default_max_tokens", "",
            "max_tokens of a request without one, where its worst case is reserved"},
           count(dispatch.max_tokens_default, 1, 10'000'000))
      .reloadable();
  table
      .add({"gateway.admission.image_tokens", "",
            "tokens that an image counts as; the most that the models make of one"},
           count(dispatch.media.image_tokens, 0, 10'000'000))
      .reloadable();
  table
      .add({"gateway.admission.audio_tokens", "", "tokens that a piece of audio counts as"},
           count(dispatch.media.audio_tokens, 0, 10'000'000))
      .reloadable();
  table
      .add({"gateway.admission.file_tokens", "", "tokens that a document or a video counts as"},
           count(dispatch.media.file_tokens, 0, 10'000'000))
      .reloadable();
  table
      .add({"gateway.admission.template_tokens", "",
            "the most tokens that the template of a chat adds to its messages, with a system prompt of its own"},
           count(dispatch.media.template_tokens, 0, 10'000'000))
      .reloadable();
  table.add({"gateway.queue_requests", "", "requests that may wait in one class"},
            count(dispatch.queue.requests, 1, 1'000'000));
  add_classes(table, dispatch);
  add_peers(table, setup);
  table.renamed("gateway.admission.clamp_above",
                "write classes.interactive.degrade_above and classes.batch.degrade_above");
  table.renamed("gateway.admission.clamp_to", "write classes.interactive.degrade_to and classes.batch.degrade_to");
}

}  // namespace

void add_log(Table& table, logging::LoggerOptions& log) {
  using logging::Level;
  table.group("Log");
  table
      .add({"log.format", "--log-format", "text or json: lines on standard error"},
           named_choice(log.format, {{"text", logging::Format::kText}, {"json", logging::Format::kJson}}))
      .placeholder("FORMAT");
  table
      .add({"log.level", "--log-level", "least level: debug, info, warning or error"},
           choice(log.level, {Level::kDebug, Level::kInfo, Level::kWarning, Level::kError}))
      .placeholder("LEVEL")
      .reloadable();
}

void add_gateway(Table& table, GatewaySetup& setup) {
  add_addresses(table, setup);
  add_endpoint_picker(table, setup.endpoint_picker);
  add_operation(table, setup);
  add_replicas(table, setup);
  add_forwarding(table, setup.options);
  add_routing(table, setup);
  add_admission(table, setup);
  add_tenants(table, setup);
  add_deferral(table, setup.options.dispatch.batch);
  table.group("Accounting");
  table.add({"gateway.ledger", "--ledger", "SQLite file with an entry for each request"}, text(setup.ledger));
  table.add({"gateway.ledger_retention", "", "entries that are older are removed; 0s keeps all"},
            duration(setup.ledger_retention));
  table.add({"gateway.record", "--record", "trace file of the traffic, which `penstock replay` reads; without texts"},
            text(setup.record));
  table.add({"gateway.record_size", "", "size at which the trace file becomes FILE.1 and replaces the one before it"},
            bytes(setup.record_bytes_max));
  table.group("Log");
  table
      .add({"log.access", "--access-log", "a line for each request at its end: on (in the log), off, or a file"},
           text(setup.access_log))
      .placeholder("WHERE");
}

}  // namespace penstock::configuration
