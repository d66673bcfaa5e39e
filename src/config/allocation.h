// What `penstock allocate` is asked: hardware, a budget, and the deployments that share them, as plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.h"
#include "core/time.h"

namespace penstock::config {

// A line of the price list.
struct AllocationHardware {
  std::string name;
  double price = 0.0;                 // of one GPU for one hour
  std::optional<std::uint64_t> gpus;  // in stock; none: as many as one likes
};

struct AllocationPool {
  std::string name;  // unique in its deployment; where none is given, that of its hardware
  std::string hardware;
  std::string role = "aggregated";  // or "prefill", "decode"
  std::uint32_t gpus = 1;           // of a replica
  std::string engine = "polynomial";
  std::uint32_t min_replicas = 0, max_replicas = 64;
  std::optional<double> capacity;  // requests/s of one replica within the SLO; none: to be load-tested
  core::Duration start_up = std::chrono::seconds{120};
};

// Requests/s: a figure, or how many arrive in a trace.
struct AllocationDemand {
  double rps = 0.0;
  std::string trace;  // a file, "synthetic:…" or "built-in"; empty: rps
  double rate_scale = 1.0;
};

struct AllocationDeployment {
  std::string name;
  int priority = 0;
  double weight = 1.0;
  AllocationDemand demand;
  core::Duration slo_ttft = std::chrono::seconds{2};
  core::Duration slo_itl = std::chrono::milliseconds{50};
  std::uint32_t input_tokens = 0, output_tokens = 0;  // of a request; 0: as in the trace
  std::vector<AllocationPool> pools;  // any number of aggregated ones; one prefill and one decode or neither
};

struct AllocationPrevious {
  std::string deployment, pool;
  std::uint32_t replicas = 0;
};

// Where a value came from, by its path: "allocate.yaml:3:9: deployments[0].pools[1].engine" for
// "deployments[0].pools[1].engine". What is a default is not in it.
using AllocationOrigins = std::map<std::string, std::string, std::less<>>;

struct AllocationSettings {
  std::vector<AllocationHardware> hardware;
  std::optional<std::uint64_t> budget_gpus;
  std::optional<double> budget_money_per_hour;
  std::string objective = "most-traffic";  // or "max-min"
  std::vector<AllocationDeployment> deployments;
  std::vector<AllocationPrevious> previous;        // the plan in force
  core::Duration every = std::chrono::minutes{5};  // from one plan to the next, where demand comes from traces
  AllocationOrigins origins;

  [[nodiscard]] bool has_traces() const;
  // What an error about a path begins with: its place in the file, or else the path.
  [[nodiscard]] std::string place(const std::string& path) const;
};

struct AllocationSources {
  std::string file;                // for messages
  std::string yaml;                // its text
  std::vector<std::string> rates;  // "NAME=RPS": the demand of a deployment instead of what the file says
};

// Reads and checks everything, and reports every fault with file, line and column, or with its flag.
[[nodiscard]] tl::expected<AllocationSettings, Problems> load_allocation(const AllocationSources& sources);

}  // namespace penstock::config
