// From the flags of `penstock load` to what the generator takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "load/expectation.h"
#include "load/generator.h"
#include "load/request_mix.h"
#include "net/address.h"
#include "workload/request.h"

namespace penstock::cli {

struct LoadSetup {
  net::Url url;
  load::GeneratorOptions generator;  // its address, TLS and model are still to be found out
  load::RequestSource source;
  std::shared_ptr<workload::Workload> workload;  // that the source reads; null without a trace
  std::vector<load::Expectation> expectations;
  std::string traffic;       // in words
  core::Duration planned{};  // how long requests will be sent; zero where it is not known
  std::string model, tls_ca, json, html;
};

[[nodiscard]] Usage load_usage();

// Errors name the flag. Reads the trace.
[[nodiscard]] core::Result<LoadSetup> read_load_setup(const Parsed& parsed);

}  // namespace penstock::cli
