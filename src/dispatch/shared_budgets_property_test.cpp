// Random arrivals at several gateways that share a budget, with reports that are lost, late and repeated, and with
// restarts. The tokens that all of them admit stay within the budget and what is admitted between two reports.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "dispatch/dispatcher.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;

constexpr core::Instant kBegin{1'000h};
constexpr core::Duration kInterval = 1s, kLateMost = 3s;
constexpr int kLostMost = 3;  // Reports in a row from one gateway to another.
// From a token that a gateway takes until every other one knows of it.
constexpr core::Duration kStaleMost = kInterval * (kLostMost + 1) + kLateMost + 100ms;
constexpr core::Duration kRestartGap = kStaleMost * 2;

struct Gateway {
  std::string process;
  core::Instant started, asks_at;
  std::uint64_t reports = 0;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<PeerBudgets> peers;
  testing::TestListener listener;
  std::vector<std::pair<Ticket, std::uint64_t>> open;  // With the most tokens that the request may use.
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> latest;  // Of each peer: number of its report, tokens.
};

struct Delivery {
  std::size_t to = 0;
  std::string to_process;
  BudgetReport report;
};

struct Event {
  core::Instant at;
  std::size_t gateway = 0;
  double tokens = 0.0;         // Taken if positive, returned if negative.
  std::vector<double> unseen;  // By gateway: what the others had taken before, and had not reported to it.
};

struct WorldOptions {
  std::size_t gateways = 3;
  admission::BudgetLimits tenant{60'000.0, 20'000.0};
  bool exchanges = true, restarts = true;
};

class World {
 public:
  World(std::uint64_t seed, WorldOptions options) : random_(core::RandomStream{seed}), options_(options) {
    gateways_.resize(options_.gateways);
    for (std::size_t i = 0; i < gateways_.size(); ++i) start(i);
  }

  void run(core::Duration time) {
    for (const core::Instant end = now_ + time; now_ < end;) {
      step_to(now_ + core::from_seconds(random_.exponential(0.02)));
      for (std::uint64_t burst = 1 + random_.below(random_.below(20) == 0 ? 30 : 2); burst > 0; --burst) arrive();
      if (random_.below(3) > 0) end_one(random_.below(gateways_.size()));
      if (options_.restarts && now_ > restarts_at_ && random_.below(1'000) == 0) restart();
    }
  }
  // All requests end, and each gateway receives a report of each other.
  void settle() {
    for (std::size_t i = 0; i < gateways_.size(); ++i)
      while (!gateways_[i].open.empty()) end_one(i);
    step_to(now_ + kLateMost + 1s);
    for (std::size_t to = 0; to < gateways_.size(); ++to)
      for (std::size_t from = 0; from < gateways_.size(); ++from)
        if (from != to) take({to, gateways_[to].process, report_of(from)});
  }

  // Of all windows that end with an admission, the most tokens beyond the bound; negative if it holds. Without a
  // restart the bound is what the gateway that admits did not know of, less what it did not know of when the window
  // began.
  [[nodiscard]] double excess_over_bound() const {
    const double rate = options_.tenant.tokens_per_minute / 60.0, most = most_admitted(kStaleMost);
    double worst = -1e18;
    for (std::size_t last = 0; last < events_.size(); ++last) {
      if (events_[last].tokens <= 0.0) continue;
      const std::size_t gateway = events_[last].gateway;
      double sum = 0.0;
      for (std::size_t first = last + 1; first-- > 0;) {
        sum += events_[first].tokens;
        const double refilled = rate * core::to_seconds(events_[last].at - events_[first].at);
        const auto restarts = std::count_if(restarts_.begin(), restarts_.end(), [&](core::Instant at) {
          return at >= events_[first].at - kStaleMost && at <= events_[last].at;
        });
        const double unknown = restarts == 0 ? events_[last].unseen[gateway] - events_[first].unseen[gateway]
                                             : (1.0 + 3.0 * static_cast<double>(restarts)) * most;
        worst = std::max(worst, sum - refilled - options_.tenant.capacity() - unknown);
      }
    }
    return worst;
  }
  // Of all windows, the most tokens beyond what is refilled and the burst.
  [[nodiscard]] double overspend() const {
    double worst = 0.0, least = 0.0, sum = 0.0;
    for (const Event& event : events_) {
      const double refilled = options_.tenant.tokens_per_minute / 60.0 * core::to_seconds(event.at - kBegin);
      least = std::min(least, sum - refilled);
      sum += event.tokens;
      worst = std::max(worst, sum - refilled - least - options_.tenant.capacity());
    }
    return worst;
  }
  // Of all gateways, in any time of this length.
  [[nodiscard]] double most_admitted(core::Duration time) const {
    double most = 0.0, sum = 0.0;
    for (std::size_t first = 0, last = 0; last < events_.size(); ++last) {
      sum += std::max(0.0, events_[last].tokens);
      for (; events_[last].at - events_[first].at > time; ++first) sum -= std::max(0.0, events_[first].tokens);
      most = std::max(most, sum);
    }
    return most;
  }
  [[nodiscard]] double tokens_per_s() const {
    double sum = 0.0;
    for (const Event& event : events_) sum += event.tokens;
    return sum / core::to_seconds(now_ - kBegin);
  }
  [[nodiscard]] std::size_t restarts() const { return restarts_.size(); }
  [[nodiscard]] std::size_t repeated() const { return repeated_; }
  [[nodiscard]] double missing_at(std::size_t gateway) const {
    return gateways_[gateway].dispatcher->budget_report(now_).tenants.front().second.missing;
  }
  // What the gateway should miss if nothing refills: what it took, and each peer by the newest report of it.
  [[nodiscard]] double expected_missing(std::size_t number) const {
    const Gateway& gateway = gateways_[number];
    std::uint64_t sum = gateway.dispatcher->budget_report(now_).tenants.front().second.taken;
    for (const auto& [process, latest] : gateway.latest) sum += latest.second;
    return static_cast<double>(sum);
  }
  [[nodiscard]] bool is_original(std::size_t number) const { return gateways_[number].started == kBegin; }

 private:
  void start(std::size_t number) {
    DispatchOptions options = testing::options_for_tests();
    options.tenants[0].name = "t";
    Gateway& gateway = gateways_[number];
    gateway = Gateway{};
    gateway.process = "process-" + std::to_string(++processes_);
    gateway.started = gateway.asks_at = now_;
    gateway.dispatcher =
        std::make_unique<Dispatcher>(options, nullptr, now_, now_.time_since_epoch() + core::Duration{10'000h});
    options.tenants[0].budget = options_.tenant;
    gateway.dispatcher->reconfigure(options, now_);  // A budget that is new starts full, however slowly it refills.
    gateway.dispatcher->set_replicas({testing::replica_named("r1")}, now_);
    gateway.peers = std::make_unique<PeerBudgets>(gateway.process, now_);
  }

  void restart() {
    start(random_.below(gateways_.size()));
    restarts_.push_back(now_);
    restarts_at_ = now_ + kRestartGap;
  }

  void step_to(core::Instant to) {
    now_ = to;
    for (std::size_t i = 0; i < gateways_.size(); ++i) {
      for (; gateways_[i].asks_at <= now_; gateways_[i].asks_at += kInterval) request_reports(i);
      const BudgetChanges forgotten = gateways_[i].peers->forget_silent(now_);
      gateways_[i].dispatcher->change_budgets(forgotten, now_);
    }
    while (!deliveries_.empty() && deliveries_.begin()->first <= now_) {
      const Delivery delivery = std::move(deliveries_.begin()->second);
      deliveries_.erase(deliveries_.begin());
      take(delivery);
    }
  }

  [[nodiscard]] BudgetReport report_of(std::size_t number) {
    Gateway& gateway = gateways_[number];
    BudgetReport report = gateway.dispatcher->budget_report(now_);
    report.process = gateway.process;
    report.number = ++gateway.reports;
    report.age = now_ - gateway.started;
    return report;
  }

  void request_reports(std::size_t to) {
    if (!options_.exchanges) return;
    for (std::size_t from = 0; from < gateways_.size(); ++from) {
      if (from == to && random_.below(10) > 0) continue;  // Its own address is among those that it knows.
      int& lost = lost_[{to, from}];
      if (lost < kLostMost && random_.below(4) == 0) {
        ++lost;
        continue;
      }
      lost = 0;
      const BudgetReport report = report_of(from);
      const double late_s = random_.below(20) == 0 ? core::to_seconds(kLateMost) : 0.3;
      const core::Instant at = now_ + core::from_seconds(random_.uniform(0.0, late_s));
      deliveries_.emplace(at, Delivery{to, gateways_[to].process, report});
      if (random_.below(5) > 0) continue;
      ++repeated_;
      deliveries_.emplace(at + core::from_seconds(random_.uniform(0.0, 10.0)),
                          Delivery{to, gateways_[to].process, report});
    }
  }

  void take(const Delivery& delivery) {
    Gateway& to = gateways_[delivery.to];
    if (to.process != delivery.to_process) return;  // It has ended.
    to.dispatcher->change_budgets(to.peers->take(delivery.report, now_), now_);
    if (delivery.report.process == to.process) return;
    auto& latest = to.latest[delivery.report.process];
    const auto& tenants = delivery.report.tenants;
    if (delivery.report.number > latest.first)
      latest = {delivery.report.number, tenants.empty() ? 0 : tenants.front().second.taken};
  }

  [[nodiscard]] double taken_by(const Gateway& gateway) const {
    const admission::AdmissionController::Tenant tenant = gateway.dispatcher->tenant(0, now_);
    return static_cast<double>(tenant.used_total) + static_cast<double>(tenant.reserved_tokens);
  }
  [[nodiscard]] double unseen_by(const Gateway& gateway) const {
    double sum = 0.0;
    for (const Gateway& other : gateways_) {
      if (&other == &gateway) continue;
      const auto known = gateway.latest.find(other.process);
      sum += taken_by(other) - (known == gateway.latest.end() ? 0.0 : static_cast<double>(known->second.second));
    }
    return sum;
  }

  // Runs a call that may take or return tokens, and records how many.
  template <class Call>
  void record(std::size_t number, Call call) {
    Event event{now_, number, 0.0, {}};
    for (const Gateway& each : gateways_) event.unseen.push_back(unseen_by(each));
    const double before = taken_by(gateways_[number]);
    call();
    event.tokens = taken_by(gateways_[number]) - before;
    if (event.tokens != 0.0) events_.push_back(std::move(event));
  }

  void arrive() {
    const std::size_t number = random_.below(gateways_.size());
    Gateway& gateway = gateways_[number];
    RequestInfo info = testing::info_of(1 + random_.below(300));
    info.max_tokens = static_cast<std::uint32_t>(1 + random_.below(300));
    info.traffic_class = random_.below(2) == 0 ? admission::Class::kBatch : admission::Class::kInteractive;
    info.received_at = now_;
    record(number, [&] {
      const ArrivalResult result = gateway.dispatcher->arrive(info, gateway.listener, now_);
      if (result.grant) gateway.open.emplace_back(result.ticket, info.text_bytes);
      if (!result.grant && result.ticket != 0) gateway.dispatcher->ended(result.ticket, {}, now_);
    });
  }

  void end_one(std::size_t number) {
    Gateway& gateway = gateways_[number];
    if (gateway.open.empty()) return;
    const std::size_t index = random_.below(gateway.open.size());
    const auto [ticket, prompt] = gateway.open[index];
    gateway.open.erase(gateway.open.begin() + static_cast<std::ptrdiff_t>(index));
    RequestOutcome outcome;
    outcome.outcome = ledger::Outcome::kCompleted;
    outcome.attempt = Attempt::kAnswered;
    outcome.usage = TokenUsage{static_cast<std::uint32_t>(1 + random_.below(prompt)), 0, 1};
    record(number, [&] {
      gateway.dispatcher->answered(ticket, now_);
      gateway.dispatcher->ended(ticket, outcome, now_);
    });
  }

  core::RandomStream random_;
  const WorldOptions options_;
  core::Instant now_ = kBegin, restarts_at_ = kBegin + kRestartGap;
  std::vector<Gateway> gateways_;
  std::multimap<core::Instant, Delivery> deliveries_;
  std::map<std::pair<std::size_t, std::size_t>, int> lost_;
  std::vector<Event> events_;
  std::vector<core::Instant> restarts_;
  std::size_t processes_ = 0, repeated_ = 0;
};

TEST(SharedBudgetsProperty, AllGatewaysTogetherStayWithinTheBudgetAndWhatIsAdmittedBetweenTwoReports) {
  std::size_t restarts = 0;
  for (std::uint64_t seed = 1; seed <= 16 && !::testing::Test::HasFailure(); ++seed) {
    World world{seed, {2 + seed % 3}};
    world.run(60s);
    EXPECT_LE(world.excess_over_bound(), 1e-6) << "seed " << seed;
    EXPECT_GT(world.tokens_per_s(), 700.0) << "a token that is charged twice is missing; seed " << seed;
    restarts += world.restarts();
  }
  EXPECT_GT(restarts, 12U);
}

TEST(SharedBudgetsProperty, TheOverspendIsAtMostABurstAndWhatIsRefilledBetweenReportsForEachOtherGateway) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    WorldOptions options;
    options.gateways = 2 + seed % 3;
    options.restarts = false;
    World world{seed, options};
    world.run(60s);
    const double refilled = options.tenant.tokens_per_minute / 60.0 * core::to_seconds(kStaleMost);
    EXPECT_LE(world.overspend(), static_cast<double>(options.gateways - 1) * (options.tenant.capacity() + refilled))
        << "seed " << seed;
    EXPECT_GT(world.overspend(), 0.0) << "a world without any tests nothing";
  }
}

TEST(SharedBudgetsProperty, WithoutReportsThatIsExceeded) {
  WorldOptions options;
  options.exchanges = options.restarts = false;
  World world{1, options};
  world.run(60s);
  EXPECT_GT(world.overspend(), 2.0 * (20'000.0 + 7'100.0));
}

TEST(SharedBudgetsProperty, NoTokenIsChargedTwice) {
  WorldOptions options;
  options.tenant = {1e-6, 1e9};  // Nothing refills.
  std::size_t originals = 0, repeated = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    options.gateways = 2 + seed % 3;
    World world{seed, options};
    world.run(30s);
    world.settle();
    for (std::size_t i = 0; i < options.gateways; ++i) {
      if (!world.is_original(i)) continue;  // It has taken over what others missed.
      ++originals;
      EXPECT_NEAR(world.missing_at(i), world.expected_missing(i), 0.01) << "seed " << seed << ", gateway " << i;
    }
    repeated += world.repeated();
  }
  EXPECT_GT(originals, 10U);
  EXPECT_GT(repeated, 100U);
}

}  // namespace
}  // namespace penstock::dispatch
