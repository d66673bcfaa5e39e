#include "cli/manifests_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "deployment/names.h"
#include "options/scalars.h"

namespace penstock::cli {
namespace {

// The files that a step-time model names; see engine/step_time_models.h.
std::vector<std::string> files_of_model(std::string_view model) {
  constexpr std::string_view kRooflineModel = "roofline:", kTableModel = "table:";
  if (model.starts_with(kRooflineModel)) {
    const std::string_view of_model = model.substr(kRooflineModel.size());
    const std::string name{of_model.substr(0, of_model.find(','))};
    const bool is_file = name.ends_with(".json") || name.starts_with('.') || name.starts_with('/');
    return is_file ? std::vector{name} : std::vector<std::string>{};
  }
  if (model.starts_with(kTableModel))
    model.remove_prefix(kTableModel.size());
  else if (!model.ends_with(".json") && !model.ends_with(".npz"))
    return {};
  return options::parse_list(model).value_or(std::vector<std::string>{});
}

}  // namespace

void ContainerNeeds::read_file(const std::string& path, const std::string& file) {
  if (file.empty()) return;
  const std::string folder = deployment::kSecretsFolder + std::string{"/"};
  if (!file.starts_with(folder) || file.find("/../") != std::string::npos)
    return reading_.report(path, "the container has no file " + options::quote(file),
                           fmt::format("put it into the Secret {}-secrets and name it {}…", program_.name, folder));
  if (const auto good = deployment::check_secret_key(std::string_view{file}.substr(folder.size())); !good)
    return reading_.report(path, options::quote(file) + " " + good.error().what, good.error().hint);
  program_.mounts_secrets = true;
}

void ContainerNeeds::write_file(const std::string& path, const std::string& file) {
  if (file.empty()) return;
  if (!file.starts_with(deployment::kStateFolder + std::string{"/"}) || file.find("/../") != std::string::npos)
    reading_.report(path, "the container cannot write " + options::quote(file),
                    fmt::format("name a file below {}", deployment::kStateFolder));
}

void ContainerNeeds::variable(const std::string& path, const std::string& name) {
  if (name.empty()) return;
  if (const auto good = deployment::check_variable(name); !good)
    return reading_.report(path, options::quote(name) + " " + good.error().what, good.error().hint);
  std::vector<std::string>& known = program_.variables;
  if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
}

void ContainerNeeds::credentials(const std::string& path, const net::CredentialOptions& credentials) {
  variable(path + "api_key_env", credentials.api_key_env);
  read_file(path + "api_key_file", credentials.api_key_file);
  read_file(path + "ca_file", credentials.ca_file);
  read_file(path + "certificate", credentials.certificate);
  read_file(path + "key", credentials.key_file);
  secret(!credentials.headers.empty());
}

// What a gateway and a planner read of the section `gateway`, and keys, which are in the file in both cases.
void ContainerNeeds::replicas(const configuration::GatewaySetup& setup) {
  credentials("gateway.credentials.", setup.discovery.credentials);
  for (std::size_t i = 0; i < setup.discovery.replicas.size(); ++i)
    credentials(fmt::format("gateway.replicas[{}].", i), setup.discovery.replicas[i].credentials);
  read_file("gateway.kubernetes.kubeconfig", setup.discovery.pods.kubeconfig);
  for (const configuration::TenantOptions& tenant : setup.tenants) secret(!tenant.keys.empty());
}

void ContainerNeeds::gateway(const configuration::GatewaySetup& setup) {
  replicas(setup);
  read_file("gateway.tls.certificate", setup.tls_certificate);
  read_file("gateway.tls.key", setup.tls_key);
  read_file("gateway.admin_token_file", setup.admin.token_file);
  variable("gateway.admin_token_env", setup.admin.token_env);
  read_file("gateway.admin_tls.certificate", setup.admin.tls_certificate);
  read_file("gateway.admin_tls.key", setup.admin.tls_key);
  read_file("gateway.admin_tls.client_ca", setup.admin.client_ca);
  read_file("gateway.endpoint_picker.certificate", setup.endpoint_picker.certificate);
  read_file("gateway.endpoint_picker.key", setup.endpoint_picker.key);
  read_file("gateway.peer_ca_file", setup.peer_ca_file);
  read_file("gateway.warm_up_prompts", setup.warm_up_prompts);
  for (const std::string& file : setup.discovery.files) read_file("gateway.replicas_file", file);
  for (std::size_t i = 0; i < setup.tenants.size(); ++i) {
    for (const std::string& file : setup.tenants[i].key_files) read_file(fmt::format("tenants[{}].key_files", i), file);
    for (const std::string& name : setup.tenants[i].key_envs) variable(fmt::format("tenants[{}].key_envs", i), name);
  }
  write_file("gateway.ledger", setup.ledger);
  write_file("gateway.record", setup.record);
  if (setup.access_log != "on" && setup.access_log != "off") write_file("log.access", setup.access_log);
}

void ContainerNeeds::nats(const connect::NatsAccess& access) {
  read_file("planner.nats.ca_file", access.ca_file);
  read_file("planner.nats.certificate", access.certificate);
  read_file("planner.nats.key", access.key_file);
  read_file("planner.nats.password_file", access.password_file);
  read_file("planner.nats.token_file", access.token_file);
  read_file("planner.nats.creds_file", access.creds_file);
  read_file("planner.nats.seed_file", access.seed_file);
  variable("planner.nats.password_env", access.password_env);
  variable("planner.nats.token_env", access.token_env);
}

void ContainerNeeds::step_time_model(const std::string& path, const std::string& model) {
  for (const std::string& file : files_of_model(model)) read_file(path, file);
}

// In the scope of the deployment.
void ContainerNeeds::deployment(const configuration::Configuration& made) {
  constexpr std::string_view kFolderSource = "file:";
  read_file("planner.warm_trace", made.planner.warm_trace);
  nats(made.planner.nats);
  if (const std::string_view source = made.planner.dynamo_discovery; source.starts_with(kFolderSource))
    reading_.report("planner.dynamo_discovery",
                    "the container has no folder " + options::quote(source.substr(kFolderSource.size())),
                    "name etcd:http://HOST:PORT");
  for (std::size_t i = 0; i < made.run.pools.size(); ++i)
    step_time_model(reading_.first_given({fmt::format("pools[{}].engine.model", i), "engine.model"}),
                    made.run.pools[i].step_time_model);
}

void ContainerNeeds::planner(const configuration::Configuration& made) {
  replicas(made.gateway);
  variable("prometheus.token_env", made.prometheus.credentials.api_key_env);
  read_file("prometheus.token_file", made.prometheus.credentials.api_key_file);
  read_file("prometheus.ca_file", made.prometheus.credentials.ca_file);
  secret(!made.prometheus.credentials.headers.empty());
  write_file("decision_log", made.output.decision_log);
  write_file("report_dir", made.output.report_dir);
  if (made.deployments.empty()) return deployment(made);
  for (std::size_t i = 0; i < made.deployments.size(); ++i) {
    reading_.set_scope(fmt::format("deployments[{}]", i));
    deployment(configuration::of_deployment(made, i));
    reading_.set_scope({});
  }
}

}  // namespace penstock::cli
