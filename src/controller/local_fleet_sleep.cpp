// Engines of a local fleet are put to sleep and woken up through their API, which is vLLM's.
#include <fmt/format.h>

#include <utility>

#include "controller/local_fleet.h"
#include "net/address.h"
#include "net/fetch.h"

namespace penstock::controller {
namespace {

// An engine answers once it is asleep or awake. vLLM offloads or reloads its weights meanwhile.
constexpr core::Duration kSleepTimeout = std::chrono::minutes{2};
constexpr core::Duration kSleepRetry = std::chrono::seconds{1};

}  // namespace

// Requests what the stage of the replica needs and its engine has not reported. A request that failed is repeated.
void LocalFleet::control_sleep(std::uint32_t id) {
  const actuation::Replica* replica = state_.find(id);
  Reports& reports = reports_[id];
  if (reports.controlled || !reports.engine || !reports.engine->healthy) return;
  const bool sleeps = replica->stage == actuation::Stage::kAsleep && !reports.engine->asleep;
  const bool wakes = replica->stage == actuation::Stage::kWaking && reports.engine->asleep;
  if ((!sleeps && !wakes) || loop_.now() - reports.controlled_at < kSleepRetry) return;
  reports.controlled = true;
  ++reports.controls;
  reports.controlled_at = loop_.now();
  reports.engine->asleep = true;
  net::FetchRequest request = net::request_to(*net::Address::parse("127.0.0.1", replica->ports.front()),
                                              sleeps ? "/sleep?level=1&mode=wait" : "/wake_up", kSleepTimeout);
  request.method = "POST";
  net::fetch(client_, std::move(request), [this, id, sleeps](const core::Result<net::FetchAnswer>& answer) {
    const auto found = reports_.find(id);
    if (found == reports_.end() || !is_known(id)) return;
    found->second.controlled = false;
    ++found->second.controls;
    if (answer && answer->status == 200) return;
    const actuation::Replica& failed = *state_.find(id);
    report(true, failed.pool,
           fmt::format("{} could not be {}: {}", actuation::name_of(failed), sleeps ? "put to sleep" : "woken up",
                       answer ? fmt::format("status {}", answer->status) : answer.error().message()));
  });
}

}  // namespace penstock::controller
