// Options of traffic classes.
#include <string_view>

#include "configuration/configuration.h"
#include "options/values.h"

namespace penstock::configuration {
namespace {

using namespace options;

constexpr std::uint64_t kWaitingTokensMax = 1'000'000'000'000;
constexpr std::string_view kOverloadHelp =
    "while replicas are full: queue (wait), degrade (wait, and shorten answers), drop (wait, but give up as soon as a "
    "request with precedence waits) or shed (refuse at once)";

struct ClassNames {
  Names queue_time, cold_start_queue_time, time_budget, tokens, overload, degrade_above, degrade_to;
};

void add_class(Table& table, dispatch::ClassOptions& options, const ClassNames& names) {
  using admission::OverloadAction;
  table.add(names.queue_time, duration(options.queue_time)).reloadable();
  table.add(names.cold_start_queue_time, duration(options.cold_start_queue_time))
      .by_default("queue_time, and 10m if a pool has min_replicas: 0")
      .reloadable();
  table.add(names.time_budget, duration(options.time_budget)).reloadable();
  table.add(names.tokens, number(options.budget.tokens_per_minute, 0.0, 1e12)).reloadable();
  table
      .add(names.overload, choice(options.overload, {OverloadAction::kQueue, OverloadAction::kDegrade,
                                                     OverloadAction::kDrop, OverloadAction::kShed}))
      .reloadable();
  table.add(names.degrade_above, count(options.degrade.above_waiting_tokens, 1, kWaitingTokensMax)).reloadable();
  table.add(names.degrade_to, count(options.degrade.max_tokens, 1, 10'000'000)).reloadable();
}

}  // namespace

void add_classes(Table& table, dispatch::DispatchOptions& dispatch) {
  add_class(table, dispatch.interactive,
            {{"classes.interactive.queue_time", "", "longest wait of an interactive request"},
             {"classes.interactive.cold_start_queue_time", "",
              "longest wait of an interactive request that arrives while no replica is available"},
             {"classes.interactive.time_budget", "", "longest time for a whole answer; 0s is no limit"},
             {"classes.interactive.tokens_per_minute", "", "tokens of all interactive requests; 0 is no limit"},
             {"classes.interactive.overload", "", kOverloadHelp},
             {"classes.interactive.degrade_above", "", "waiting interactive tokens above which answers are shortened"},
             {"classes.interactive.degrade_to", "", "max_tokens of a shortened answer"}});
  add_class(table, dispatch.batch,
            {{"classes.batch.queue_time", "", "longest wait of a batch request"},
             {"classes.batch.cold_start_queue_time", "",
              "longest wait of a batch request that arrives while no replica is available"},
             {"classes.batch.time_budget", "", "longest time for a whole answer; 0s is no limit"},
             {"classes.batch.tokens_per_minute", "", "tokens of all batch requests; 0 is no limit"},
             {"classes.batch.overload", "", kOverloadHelp},
             {"classes.batch.degrade_above", "", "waiting tokens of both classes above which answers are shortened"},
             {"classes.batch.degrade_to", "", "max_tokens of a shortened answer"}});
}

void add_deferral(Table& table, dispatch::BatchOptions& batch) {
  using dispatch::NearDeadline;
  table.group("Deferral");
  table
      .add({"classes.batch.completion_window", "--defer-batch",
            "time for the whole answer of a batch request, which waits for spare capacity meanwhile; 0s defers none"},
           duration(batch.completion_window))
      .reloadable();
  table
      .add({"classes.batch.defer_load", "",
            "share of slo.itl and of kv_throttle up to which a replica has spare capacity for deferred requests"},
           share(batch.defer_load, 0.05, 1.0))
      .reloadable();
  table
      .add({"classes.batch.near_deadline", "",
            "what happens to a deferred request near its deadline: send (like an interactive one) or refuse"},
           named_choice(batch.near_deadline, {{"send", NearDeadline::kSend}, {"refuse", NearDeadline::kRefuse}}))
      .reloadable();
}

void add_peers(Table& table, GatewaySetup& gateway) {
  gateway::PeerOptions& peers = gateway.options.peers;
  table
      .add({"gateway.peers", "--peers",
            "URLs of the admin addresses of gateways that share the budgets and concurrency limits of tenants; each "
            "address of a host name is one, and this gateway's own may be among them"},
           names(peers.urls))
      .placeholder("URL,…");
  table.add({"gateway.peer_interval", "", "from one report of another gateway on its budgets to the next"},
            duration_above_zero(peers.interval));
  table.add({"gateway.peer_ca_file", "",
             "PEM file of the certificates that peers with https are verified with; by default those of the system"},
            text(gateway.peer_ca_file));
}

}  // namespace penstock::configuration
