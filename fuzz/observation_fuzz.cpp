// Observations of another program: each line is answered, a broken one by an error object; each answer is a record that
// a decision log can hold, and no figure that is not finite reaches the policy.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "controller/decision_stream.h"
#include "planner/policy.h"
#include "report/decision_log.h"

namespace {

using namespace penstock;

bool is_figure(double value) { return std::isfinite(value) && value >= 0.0; }

void check_window(const signals::LatencyWindow& window) {
  for (const double value : {window.mean_ms, window.p50_ms, window.p90_ms, window.p95_ms, window.p99_ms})
    if (!is_figure(value)) std::abort();
}

class Checked final : public decision::Policy {
 public:
  explicit Checked(std::unique_ptr<decision::Policy> policy) : policy_(std::move(policy)) {}
  [[nodiscard]] std::string_view name() const override { return policy_->name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_->interval(); }
  [[nodiscard]] core::Duration memory() const override { return std::chrono::minutes{5}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& seen) override {
    if (seen.now < core::kStart || (last_ && seen.now <= *last_)) std::abort();
    last_ = seen.now;
    for (const signals::PoolObservation& pool : seen.pools) {
      if (pool.ready + pool.starting + pool.draining != pool.replicas.size()) std::abort();
      check_window(pool.last_minute.ttft);
      check_window(pool.last_minute.itl);
      for (const signals::ReplicaObservation& replica : pool.replicas)
        if (replica.state_since > seen.now || (replica.sample && !is_figure(replica.sample->kv_usage().value_or(0.0))))
          std::abort();
    }
    for (const signals::RecentRequest& request : seen.recent)
      if (request.arrival > seen.now || !std::isfinite(request.ttft_ms) || !std::isfinite(request.itl_ms)) std::abort();
    return policy_->decide(seen);
  }

 private:
  std::unique_ptr<decision::Policy> policy_;
  std::optional<core::Instant> last_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const char* name : {"llmd-saturation-v2", "hpa-concurrency", "kpa"}) {
    Checked policy{*planner::make_policy(name, {})};
    controller::DecisionStreamOptions options;
    options.pools.resize(1);
    options.pools[0].max_replicas = 64;
    controller::DecisionStream stream{policy, options};
    std::string_view text{reinterpret_cast<const char*>(data), size};
    for (std::uint64_t number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const auto answer = stream.answer(text.substr(0, end), number);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (answer.is_error) {
        if (!answer.text.starts_with("{\"error\":") || answer.text.find('\n') + 1 != answer.text.size()) std::abort();
        continue;
      }
      const auto records = report::parse_decision_jsonl(answer.text, "answer");
      if (!records || records->records.size() != 1 || records->records.front().target > 64) std::abort();
    }
  }
  return 0;
}
