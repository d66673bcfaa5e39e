// `penstock epp`: the gateway as an endpoint picker of Envoy, with the flags of llm-d's.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/endpoint_picker_config.h"
#include "cli/epp_flags.h"
#include "cli/gateway_command.h"
#include "options/yaml.h"

namespace penstock::cli {
namespace {

Usage epp_usage() {
  Usage usage;
  usage.command = "epp";
  usage.summary =
      "Picks the replica of each request that Envoy sends: the admission and routing of `penstock gateway` by Envoy's\n"
      "external processing protocol, for gateways of the Gateway API Inference Extension. Takes the flags of llm-d's\n"
      "endpoint picker.";
  usage.operand = "URL";
  usage.many_operands = true;
  usage.flags = epp_flags();
  usage.notes =
      "SIGTERM drains: exit code 0 once all requests have ended. All flags of `penstock gateway` work, too; without\n"
      "--listen nothing but Envoy is served. The namespace is by default that of the variable NAMESPACE.\n\n"
      "Examples:\n"
      "  penstock epp --pool-name chat --pool-namespace prod\n"
      "  penstock epp --secure-serving=false --config penstock.yaml http://10.0.0.1:8000 http://10.0.0.2:8000\n";
  return usage;
}

configuration::Configuration epp_defaults() {
  configuration::Configuration made;
  configuration::GatewaySetup& setup = made.gateway;
  setup.endpoint_picker.listen = ":9002";
  setup.endpoint_picker.health_listen = ":9003";
  setup.admin_listen = ":9090";
  setup.drain_delay = std::chrono::seconds{5};  // Envoy notices by its next health checks.
  if (const char* in_namespace = std::getenv("NAMESPACE"); in_namespace != nullptr)
    setup.discovery.pods.in_namespace = in_namespace;
  return made;
}

}  // namespace

int serve_endpoint_picker(const Arguments& arguments) {
  auto line = read_epp_words(arguments);
  if (!line) return report_error(line.error());
  GatewayCommand command{epp_usage(), epp_defaults(), false, std::move(line->warnings)};
  if (!line->config_file.empty()) {
    auto text = options::read_text_file(line->config_file, options::YamlLimits{}.bytes_max);
    if (!text) return report_input_error(text.error());
    line->config_text = *std::move(text);
  }
  if (!line->config_text.empty()) {
    auto config = parse_endpoint_picker_config(line->config_file.empty() ? "--config-text" : line->config_file,
                                               line->config_text);
    if (!config) return report_error(config.error());
    dispatch::DispatchOptions& dispatch = command.defaults.gateway.options.dispatch;
    if (config->queue_time) dispatch.interactive.queue_time = *config->queue_time;
    if (config->queue_requests) dispatch.queue.requests = *config->queue_requests;
    for (std::string& warning : config->warnings) command.warnings.push_back(std::move(warning));
  }
  return run_gateway(std::move(command), line->gateway);
}

}  // namespace penstock::cli
