#include "cli/check_planner.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "connect/nats/access.h"
#include "connect/prometheus/source.h"
#include "controller/dynamo_discovery.h"
#include "net/address.h"
#include "net/client.h"
#include "net/loop.h"
#include "options/yaml.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kSecretFileBytesMax = std::size_t{1} << 20;

// A file may name a server for `penstock manifests` only, and then has neither a preset nor queries.
void check_prometheus(connect::PrometheusOptions options, options::Reading& reading) {
  if (options.url.empty()) return;
  if (options.preset == "none") options.preset = "vllm";
  net::Loop loop;
  net::Client client{loop};
  if (const auto started = connect::PrometheusSource::start(loop, client, std::move(options)); !started)
    reading.report(started.error().where, started.error().what, started.error().hint);
}

void check_nats_files(const connect::NatsAccess& access, options::Reading& reading) {
  for (const auto& [key, file] : {std::pair{"ca_file", access.ca_file},
                                  {"certificate", access.certificate},
                                  {"key", access.key_file},
                                  {"password_file", access.password_file},
                                  {"token_file", access.token_file},
                                  {"creds_file", access.creds_file},
                                  {"seed_file", access.seed_file}})
    if (!file.empty())
      if (const auto text = options::read_text_file(file, kSecretFileBytesMax); !text)
        reading.report(fmt::format("planner.nats.{}", key), text.error().message());
  if (!reading.is_valid("planner.nats")) return;
  if (const auto secrets = connect::read_nats_secrets(access); !secrets)
    reading.report("planner.nats", secrets.error().message());
}

}  // namespace

void check_planner_sources(const configuration::Configuration& made, options::Reading& reading) {
  check_prometheus(made.prometheus, reading);
  if (const std::string& source = made.planner.dynamo_discovery; !source.empty())
    if (const auto parsed = controller::DynamoDiscovery::parse(source); !parsed)
      reading.report("planner.dynamo_discovery", parsed.error().what);
  for (std::size_t i = 0; i < made.planner.gpu_exporters.size(); ++i)
    if (const auto url = net::parse_url(made.planner.gpu_exporters[i]); !url)
      reading.report(reading.first_given({fmt::format("planner.gpu_exporters[{}]", i), "planner.gpu_exporters"}),
                     url.error().message());
  check_nats_files(made.planner.nats, reading);
}

}  // namespace penstock::cli
