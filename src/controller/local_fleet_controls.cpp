// Engines of a local fleet are put to sleep and woken up through vLLM's API, and change their role through SGLang's.
#include <fmt/format.h>

#include <utility>

#include "controller/local_fleet.h"
#include "controller/role_requests.h"
#include "net/address.h"
#include "net/fetch.h"

namespace penstock::controller {
namespace {

// An engine answers once it has done what was requested. vLLM offloads or reloads its weights meanwhile.
constexpr core::Duration kControlTimeout = std::chrono::minutes{2};
constexpr core::Duration kControlRetry = std::chrono::seconds{1};

struct Control {
  std::string path, body;
  std::string_view failure;
};

// What the stage of a replica needs and its engine has not reported.
std::optional<Control> control_for(actuation::Stage stage, bool asleep, std::string_view role,
                                   std::string_view pool_role) {
  if (stage == actuation::Stage::kAsleep && !asleep)
    return Control{"/sleep?level=1&mode=wait", {}, "could not be put to sleep"};
  if (stage == actuation::Stage::kWaking && asleep) return Control{"/wake_up", {}, "could not be woken up"};
  if (stage == actuation::Stage::kSwitching && role != pool_role)
    return Control{kRoleChangePath, role_change_body(pool_role), "could not change its role"};
  return std::nullopt;
}

}  // namespace

// A request that failed is repeated.
void LocalFleet::control(std::uint32_t id) {
  const actuation::Replica* replica = state_.find(id);
  const std::size_t pool = pool_of(options_, *replica);
  Reports& reports = reports_[id];
  if (reports.controlled || !reports.engine || !reports.engine->healthy || pool == options_.pools.size()) return;
  const auto control =
      control_for(replica->stage, reports.engine->asleep, reports.role, to_string(options_.pools[pool].role));
  if (!control || loop_.now() - reports.controlled_at < kControlRetry) return;
  reports.controlled = true;
  ++reports.controls;
  reports.controlled_at = loop_.now();
  reports.engine->asleep = reports.engine->switching = true;
  net::FetchRequest request =
      net::request_to(*net::Address::parse("127.0.0.1", replica->ports.front()), control->path, kControlTimeout);
  request.method = "POST";
  if (!control->body.empty()) request.fields.push_back({"Content-Type", "application/json"});
  request.body = control->body;
  net::fetch(client_, std::move(request),
             [this, id, failure = control->failure](const core::Result<net::FetchAnswer>& answer) {
               const auto found = reports_.find(id);
               if (found == reports_.end() || !is_known(id)) return;
               found->second.controlled = false;
               ++found->second.controls;
               if (answer && answer->status == 200) return;
               const actuation::Replica& failed = *state_.find(id);
               report(true, failed.pool,
                      fmt::format("{} {}: {}", actuation::name_of(failed), failure,
                                  answer ? fmt::format("status {}", answer->status) : answer.error().message()));
             });
}

}  // namespace penstock::controller
