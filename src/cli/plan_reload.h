// Reads the configuration of a running planner again, after SIGHUP or when one of its files changes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/plan_deployments.h"
#include "cli/plan_setup.h"
#include "cli/reload.h"
#include "connect/file_stamps.h"
#include "connect/kubernetes/variant_annotations.h"
#include "controller/annotated_pools.h"
#include "controller/planner_daemon.h"
#include "dashboard/dashboard.h"
#include "logging/logger.h"
#include "net/credentials.h"
#include "net/loop.h"
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

  // What reload() changes besides the level of the log: the daemons of all deployments, whose policies share the
  // budget. All of it outlives the last reload; budget and board may be null.
  void reloads(const std::vector<PlannedDeployment>& deployments, planner::global::SharedBudget* budget,
               dashboard::Dashboard* board);
  void reloads_credentials(std::shared_ptr<net::CredentialStore> credentials) {
    credentials_.push_back(std::move(credentials));
  }
  void reload();
  // Reads the files again whenever one of them changes, unless gateway.watch is false. After reloads().
  void watch(net::Loop& loop);
  // Puts in force what annotations of llm-d give and the configuration does not; to be called now and then.
  void follow_annotations();

 private:
  // What is known of one deployment.
  struct Part {
    controller::PlannerDaemon* daemon = nullptr;
    bool model_is_given = false;
    std::vector<std::set<std::string, std::less<>>> given{};  // Keys of each pool that the configuration gives.
    std::vector<std::vector<connect::VariantAnnotations>> annotations{};  // By pool.
    controller::AnnotationLog annotation_log{};
  };
  // What a reload puts in force for one deployment.
  struct Renewed {
    controller::DaemonOptions options;
    std::unique_ptr<decision::Policy> policy;
  };

  [[nodiscard]] options::Problems apply();
  void follow_files();
  void read_given(options::Reading reading);
  void annotate(Part& part, simulation::RunOptions& run);
  void follow_annotations(std::size_t deployment);
  [[nodiscard]] core::Result<Renewed> renew(std::size_t deployment, const configuration::Configuration& made,
                                            const simulation::RunOptions& run) const;

  const PlanOptions& plan_;
  const Parsed& parsed_;
  logging::Logger& log_;
  LoadedConfiguration current_;  // What is in force.
  std::vector<Part> parts_;      // By deployment; empty: the planner is not ready.
  std::optional<options::Reading> started_;
  planner::global::SharedBudget* budget_ = nullptr;
  dashboard::Dashboard* board_ = nullptr;
  std::vector<std::shared_ptr<net::CredentialStore>> credentials_;  // Of engines; empty: they need none.
  connect::FileStamps stamps_;
};

}  // namespace penstock::cli
