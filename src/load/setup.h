// The options of `penstock load`, and the request source that they describe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "load/arrivals.h"
#include "load/endpoint.h"
#include "load/expectation.h"
#include "load/generator.h"
#include "load/request_mix.h"
#include "net/address.h"
#include "options/arguments.h"
#include "workload/request.h"

namespace penstock::load {

// Values of the flags.
struct LoadOptions {
  load::GeneratorOptions generator;  // Address, TLS and model are determined later.
  load::MixOptions mix;
  std::vector<load::Expectation> expectations;
  std::vector<load::Sender> tenants;
  std::vector<double> tenant_shares;
  load::EndpointOptions endpoint;
  std::string json, html;
  bool quiet = false;

  std::uint64_t seed = 1, requests_max = 0;
  core::Duration duration = std::chrono::minutes{1};
  double rate = 0.0;
  load::ArrivalKind arrivals = load::ArrivalKind::kPoisson;
  load::Bursts bursts{1.0, std::chrono::minutes{2}, std::chrono::seconds{10}};
  workload::RateShape profile = workload::RateShape::kConstant;
  core::Duration period = std::chrono::minutes{10};
  double peak = 10.0;
  std::optional<double> trough;  // Empty: a tenth of the peak.
  configuration::TraceOptions trace;
  double speed = 1.0;
  bool chat = false, completions = false, stop_at_eos = false;
};
[[nodiscard]] options::Table load_table(LoadOptions& options);
[[nodiscard]] options::Usage load_usage(const options::Table& table);

struct LoadSetup {
  LoadOptions options;
  net::Url url;
  load::RequestSource source;
  std::shared_ptr<workload::Workload> workload;  // Read by the source; null without a trace.
  std::string traffic;                           // Description for reports.
  core::Duration planned{};                      // Planned duration; zero if it is unknown.
  std::vector<std::string> warnings;             // About the times of the trace.
};

// Reads the trace. Errors name the flag.
[[nodiscard]] core::Result<LoadSetup> make_load_setup(LoadOptions options, const std::string& url,
                                                      const options::Arguments& given);

}  // namespace penstock::load
