// Reads the configuration of a running planner again, after SIGHUP.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/plan_setup.h"
#include "cli/reload.h"
#include "connect/kubernetes/variant_annotations.h"
#include "controller/annotated_pools.h"
#include "controller/planner_daemon.h"
#include "dashboard/dashboard.h"
#include "logging/logger.h"
#include "net/credentials.h"
#include "options/reading.h"

namespace penstock::cli {

// Applies all values that need no restart, or none if any value, file or credential is invalid. The policy is made
// again and continues in the state of the former one. Keys, tokens and certificates are read again even if the
// configuration has not changed. Runs on one loop.
class PlannerReloader {
 public:
  // All of it outlives the reloader.
  PlannerReloader(const PlanOptions& plan, const LoadedConfiguration& started, const Parsed& parsed,
                  logging::Logger& log);

  // What reload() changes besides the level of the log. Both outlive the last reload; `board` may be null.
  void reloads(controller::PlannerDaemon& daemon, dashboard::Dashboard* board);
  void reloads_credentials(std::shared_ptr<net::CredentialStore> credentials) { credentials_ = std::move(credentials); }
  void reload();
  // Puts in force what annotations of llm-d give and the configuration does not; to be called now and then.
  void follow_annotations();

 private:
  [[nodiscard]] options::Problems apply();
  void read_given(const options::Reading& reading, std::size_t pools);
  void annotate(simulation::RunOptions& run);

  const PlanOptions& plan_;
  const Parsed& parsed_;
  logging::Logger& log_;
  LoadedConfiguration current_;                  // What is in force.
  controller::PlannerDaemon* daemon_ = nullptr;  // Null: the planner is not ready.
  dashboard::Dashboard* board_ = nullptr;
  std::shared_ptr<net::CredentialStore> credentials_;  // Of engines; null: they need none.
  bool model_is_given_ = false;
  std::vector<std::set<std::string, std::less<>>> given_;  // Keys of each pool that the configuration gives.
  std::vector<std::vector<connect::VariantAnnotations>> annotations_;  // By pool.
  controller::AnnotationLog annotation_log_;
};

}  // namespace penstock::cli
