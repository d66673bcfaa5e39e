// The overload policies of segments in AdmissionController.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "admission/admission_controller.h"
#include "core/random.h"

namespace penstock::admission {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr core::Instant kNow = core::kStart + seconds{100};
constexpr std::uint32_t kGold = 0, kFree = 1;  // The tenant gold has the higher tier.

using Tickets = std::vector<std::uint64_t>;

AdmissionLimits limits_with(OverloadAction interactive, OverloadAction batch) {
  AdmissionLimits made;
  made.classes[0] = {seconds{10}, {}, interactive};
  made.classes[1] = {minutes{5}, {}, batch};
  return made;
}

class OverloadTest : public testing::Test {
 protected:
  void begin(const AdmissionLimits& limits) {
    controller_ = std::make_unique<AdmissionController>(limits, kNow);
    controller_->set_tenant(kGold, {"gold", 1.0, 1, {}, false, 0}, kNow);
    controller_->set_tenant(kFree, {"free", 1.0, 0, {}, false, 0}, kNow);
  }
  void begin(OverloadAction batch, OverloadAction interactive = OverloadAction::kQueue) {
    begin(limits_with(interactive, batch));
  }
  Answer arrive(std::uint64_t ticket, Class traffic_class, std::uint32_t tenant = kFree) {
    return controller_->arrive({ticket, tenant, 0, traffic_class, {10, 0}, now_}, verdict_);
  }
  // Admits what may be admitted; returns the requests that gave way.
  Tickets pump() {
    admitted_.clear();
    for (const Admitted& one : controller_->next(kNow, verdict_).admitted) admitted_.push_back(one.ticket);
    Tickets dropped;
    for (const Refused& one : controller_->dropped(kNow)) {
      EXPECT_EQ(one.answer.decision, Decision::kRefuseDropped);
      EXPECT_GE(one.answer.retry_after_s, 1U);
      EXPECT_FALSE(one.answer.own_limit);
      dropped.push_back(one.ticket);
    }
    return dropped;
  }

  std::unique_ptr<AdmissionController> controller_;
  core::Instant now_ = kNow;
  Verdict room_ = Verdict::kWait;
  AdmissionController::VerdictOf verdict_ = [this](std::uint64_t) { return room_; };
  Tickets admitted_;
};

TEST_F(OverloadTest, ASegmentThatShedsIsRefusedAtOnceAndTheSentenceNamesTheOption) {
  begin(OverloadAction::kShed);
  const Answer answer = arrive(1, Class::kBatch);
  EXPECT_EQ(answer.decision, Decision::kRefusePressure);
  EXPECT_GE(answer.retry_after_s, 1U);
  EXPECT_NE(answer.why.find("classes.batch.overload: shed"), std::string::npos) << answer.why;
  room_ = Verdict::kAdmit;
  EXPECT_EQ(arrive(2, Class::kBatch).decision, Decision::kAdmit);
}

TEST_F(OverloadTest, ASegmentThatShedsDoesNotOvertakeARequestWithPrecedence) {
  begin(OverloadAction::kShed);
  ASSERT_EQ(arrive(1, Class::kInteractive).decision, Decision::kQueue);
  room_ = Verdict::kAdmit;
  EXPECT_EQ(arrive(2, Class::kBatch).decision, Decision::kRefusePressure);
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(admitted_, Tickets{1});
}

TEST_F(OverloadTest, ASegmentThatShedsDoesNotOvertakeItsEqual) {
  begin(OverloadAction::kQueue);
  ASSERT_EQ(arrive(1, Class::kBatch).decision, Decision::kQueue);
  controller_->set_tenant(2, {"other", 1.0, 0, {}, false, 0, OverloadAction::kShed}, kNow);
  room_ = Verdict::kAdmit;
  EXPECT_EQ(arrive(2, Class::kBatch, 2).decision, Decision::kRefusePressure);
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(admitted_, Tickets{1});
  EXPECT_EQ(arrive(3, Class::kBatch, 2).decision, Decision::kAdmit);
}

TEST_F(OverloadTest, InteractiveRequestsThatShedDoNotYieldToBatch) {
  begin(OverloadAction::kQueue, OverloadAction::kShed);
  ASSERT_EQ(arrive(1, Class::kBatch).decision, Decision::kQueue);
  room_ = Verdict::kAdmit;
  EXPECT_EQ(arrive(2, Class::kInteractive).decision, Decision::kAdmit);
}

TEST_F(OverloadTest, ASegmentThatDropsWaitsUntilARequestWithPrecedenceWaits) {
  begin(OverloadAction::kDrop);
  ASSERT_EQ(arrive(1, Class::kBatch).decision, Decision::kQueue);
  ASSERT_EQ(arrive(2, Class::kBatch).decision, Decision::kQueue);
  EXPECT_TRUE(pump().empty());
  ASSERT_EQ(arrive(3, Class::kInteractive).decision, Decision::kQueue);
  EXPECT_EQ(pump(), (Tickets{1, 2}));
  EXPECT_TRUE(admitted_.empty());
  EXPECT_EQ(controller_->waiting(), 1U);
  EXPECT_EQ(arrive(4, Class::kBatch).decision, Decision::kRefuseDropped);
  room_ = Verdict::kAdmit;
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(admitted_, Tickets{3});
}

TEST_F(OverloadTest, ASegmentGivesWayForAWhileAfterTheLastRequestWithPrecedenceFoundNoRoom) {
  for (const OverloadAction action : {OverloadAction::kShed, OverloadAction::kDrop}) {
    begin(action, OverloadAction::kShed);
    ASSERT_EQ(arrive(1, Class::kInteractive).decision, Decision::kRefusePressure);
    room_ = Verdict::kAdmit;
    now_ = kNow + kGiveWay;
    const Answer answer = arrive(2, Class::kBatch);
    EXPECT_EQ(answer.decision, action == OverloadAction::kDrop ? Decision::kRefuseDropped : Decision::kRefusePressure);
    EXPECT_GE(answer.retry_after_s, 2U);
    now_ += milliseconds{1};
    EXPECT_EQ(arrive(3, Class::kBatch).decision, Decision::kAdmit);
    EXPECT_EQ(arrive(4, Class::kInteractive).decision, Decision::kAdmit);
    room_ = Verdict::kWait;
    now_ = kNow;
  }
}

// Room that the protected request can use is no overload.
TEST_F(OverloadTest, NothingIsDroppedForARequestThatIsAdmitted) {
  begin(OverloadAction::kDrop);
  ASSERT_EQ(arrive(1, Class::kBatch).decision, Decision::kQueue);
  room_ = Verdict::kAdmit;
  EXPECT_EQ(arrive(2, Class::kInteractive).decision, Decision::kAdmit);
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(admitted_, Tickets{1});
}

TEST_F(OverloadTest, ARequestIsDroppedAtItsArrivalWhileOneWithPrecedenceWaits) {
  begin(OverloadAction::kDrop, OverloadAction::kDrop);
  ASSERT_EQ(arrive(1, Class::kInteractive, kFree).decision, Decision::kQueue);
  ASSERT_EQ(arrive(2, Class::kBatch, kGold).decision, Decision::kRefuseDropped);
}

TEST_F(OverloadTest, AHigherTierHasPrecedenceWithinItsClass) {
  begin(OverloadAction::kDrop, OverloadAction::kDrop);
  ASSERT_EQ(arrive(1, Class::kBatch, kFree).decision, Decision::kQueue);
  ASSERT_EQ(arrive(2, Class::kBatch, kGold).decision, Decision::kQueue);
  EXPECT_EQ(pump(), Tickets{1});
  ASSERT_EQ(arrive(3, Class::kInteractive, kFree).decision, Decision::kQueue);
  EXPECT_EQ(pump(), Tickets{2});
  ASSERT_EQ(arrive(4, Class::kInteractive, kGold).decision, Decision::kQueue);
  EXPECT_EQ(pump(), Tickets{3});
  EXPECT_EQ(controller_->waiting(), 1U);
}

TEST_F(OverloadTest, AllThatIsOutrankedLeavesTheLeastPrecedenceFirst) {
  AdmissionLimits limits = limits_with(OverloadAction::kQueue, OverloadAction::kQueue);
  begin(limits);
  ASSERT_EQ(arrive(1, Class::kBatch, kGold).decision, Decision::kQueue);
  ASSERT_EQ(arrive(2, Class::kBatch, kFree).decision, Decision::kQueue);
  ASSERT_EQ(arrive(3, Class::kInteractive, kFree).decision, Decision::kQueue);
  ASSERT_EQ(arrive(4, Class::kInteractive, kGold).decision, Decision::kQueue);
  EXPECT_TRUE(pump().empty());
  limits = limits_with(OverloadAction::kDrop, OverloadAction::kDrop);
  controller_->set_classes(limits.classes, kNow);
  EXPECT_EQ(pump(), (Tickets{2, 1, 3}));
}

TEST_F(OverloadTest, ATenantReplacesTheActionOfItsClass) {
  begin(OverloadAction::kQueue);
  controller_->set_tenant(kFree, {"free", 1.0, 0, {}, false, 0, OverloadAction::kShed}, kNow);
  EXPECT_NE(arrive(1, Class::kBatch).why.find("overload: shed of tenant free"), std::string::npos);
  EXPECT_EQ(arrive(2, Class::kBatch, kGold).decision, Decision::kQueue);
  controller_->set_tenant(kGold, {"gold", 1.0, 1, {}, false, 0, OverloadAction::kDrop}, kNow);
  ASSERT_EQ(arrive(3, Class::kInteractive, kGold).decision, Decision::kQueue);
  EXPECT_EQ(pump(), Tickets{2});
}

TEST_F(OverloadTest, NothingIsDroppedForARequestThatWaitsForItsBudget) {
  begin(OverloadAction::kDrop);
  controller_->set_tenant(kGold, {"gold", 1.0, 1, {60.0, 60.0}, true, 0}, kNow);
  room_ = Verdict::kAdmit;
  ASSERT_EQ(controller_->arrive({1, kGold, 0, Class::kInteractive, {60, 0}, kNow}, verdict_).decision,
            Decision::kAdmit);
  ASSERT_EQ(arrive(2, Class::kInteractive, kGold).decision, Decision::kQueue);
  room_ = Verdict::kWait;
  ASSERT_EQ(arrive(3, Class::kBatch).decision, Decision::kQueue);
  EXPECT_TRUE(pump().empty());
  room_ = Verdict::kAdmit;
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(admitted_, Tickets{3});
}

// ---- random traffic -------------------------------------------------------------------------------------------------

// Replicas have room for a number of requests at once. Every segment gets what its policy states, and nothing else.
class RandomOverload {
 public:
  explicit RandomOverload(std::uint64_t seed) : random_(core::RandomStream{seed}.fork("overload")) {
    AdmissionLimits limits = limits_with(random_action(), random_action());
    if (random_.below(5) == 0) limits.classes[random_.below(2)].queue_time = {};
    limits.batch_turn = static_cast<std::uint32_t>(1 + random_.below(8));
    classes_ = limits.classes;
    controller_ = std::make_unique<AdmissionController>(limits, kNow);
    for (std::uint32_t i = 0; i < kTenants; ++i) {
      TenantLimits tenant{
          std::string(1, static_cast<char>('a' + i)), 1.0, static_cast<std::int32_t>(random_.below(3)), {}, false, 0};
      if (random_.below(2) == 0) tenant.overload = random_action();
      tenants_.push_back(tenant);
      controller_->set_tenant(i, tenant, now_);
    }
    room_ = 1 + static_cast<std::int64_t>(random_.below(10));
  }

  void step() {
    now_ += milliseconds{random_.below(400)};
    if (random_.below(3) != 0) {
      arrive();
      if (random_.below(2) == 0) return;  // The next tick is later.
    } else if (!open_.empty()) {
      end();
    }
    pump();
  }

 private:
  static constexpr std::uint32_t kTenants = 5;

  OverloadAction random_action() { return static_cast<OverloadAction>(random_.below(kOverloadActions)); }
  [[nodiscard]] OverloadAction action(const Arrival& of) const {
    const ClassLimits& limits = classes_[index_of(of.traffic_class)];
    return action_of(tenants_[of.tenant].overload, limits.overload, limits.queue_time);
  }
  [[nodiscard]] Precedence precedence(const Arrival& of) const { return {of.traffic_class, tenants_[of.tenant].tier}; }
  // A request with precedence waits, or found no room a short time ago.
  [[nodiscard]] bool outranked(const Arrival& of) const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const auto& each) { return precedence(each.second) > precedence(of); }) ||
           std::any_of(full_for_.begin(), full_for_.end(),
                       [&](const auto& each) { return each.first > precedence(of) && now_ - each.second <= kGiveWay; });
  }
  Verdict verdict(const Arrival& of, std::size_t taken) {
    if (open_.size() + taken < static_cast<std::size_t>(room_)) return Verdict::kAdmit;
    full_for_[precedence(of)] = now_;
    return Verdict::kWait;
  }

  void arrive() {
    Arrival arrival{next_++, static_cast<std::uint32_t>(random_.below(kTenants)),
                    0,       random_.below(2) == 0 ? Class::kInteractive : Class::kBatch,
                    {10, 0}, now_};
    const bool may_not_overtake = outranked(arrival);
    const Answer answer = controller_->arrive(arrival, [&](std::uint64_t) { return verdict(arrival, 0); });
    const OverloadAction stated = action(arrival);
    switch (answer.decision) {
      case Decision::kAdmit: open_.emplace(arrival.ticket, arrival); break;
      case Decision::kQueue:
        ASSERT_NE(stated, OverloadAction::kShed);
        waiting_.emplace(arrival.ticket, arrival);
        break;
      case Decision::kRefusePressure: ASSERT_EQ(stated, OverloadAction::kShed); break;
      case Decision::kRefuseDropped:
        ASSERT_EQ(stated, OverloadAction::kDrop);
        ASSERT_TRUE(may_not_overtake);
        break;
      default: FAIL() << to_string(answer.decision);
    }
    const bool yields = stated == OverloadAction::kShed || stated == OverloadAction::kDrop;
    if (may_not_overtake && yields) {
      ASSERT_NE(answer.decision, Decision::kAdmit);
    }
  }
  void pump() {
    for (const Refused& late : controller_->expired(now_)) {
      ASSERT_EQ(late.answer.decision, Decision::kRefuseQueueTime);
      ASSERT_EQ(waiting_.erase(late.ticket), 1U);
    }
    for (bool more = true; more;) {
      // The verdict counts what this call admits.
      std::vector<std::uint64_t> taken;
      const Next next = controller_->next(now_, [&](std::uint64_t ticket) {
        if (verdict(waiting_.at(ticket), taken.size()) != Verdict::kAdmit) return Verdict::kWait;
        taken.push_back(ticket);
        return Verdict::kAdmit;
      });
      for (const Admitted& one : next.admitted) {
        const auto found = waiting_.find(one.ticket);
        ASSERT_NE(found, waiting_.end());
        const Arrival arrival = found->second;
        waiting_.erase(found);
        if (action(arrival) == OverloadAction::kDrop) {
          ASSERT_FALSE(outranked(arrival));
        }
        open_.emplace(one.ticket, arrival);
      }
      more = next.more;
    }
    std::optional<Precedence> last;
    for (const Refused& one : controller_->dropped(now_)) {
      const auto found = waiting_.find(one.ticket);
      ASSERT_NE(found, waiting_.end());
      ASSERT_EQ(action(found->second), OverloadAction::kDrop);
      ASSERT_TRUE(outranked(found->second));
      ASSERT_TRUE(!last || *last <= precedence(found->second));
      last = precedence(found->second);
      waiting_.erase(found);
    }
    // No request waits here for a limit of its own, so all that could give way has left.
    for (const auto& [ticket, arrival] : waiting_)
      if (action(arrival) == OverloadAction::kDrop) {
        ASSERT_FALSE(outranked(arrival)) << "ticket " << ticket;
      }
    ASSERT_EQ(controller_->waiting(), waiting_.size());
  }
  void end() {
    auto one = open_.lower_bound(random_.below(next_));
    if (one == open_.end()) one = open_.begin();
    controller_->ended(one->first, 10, now_);
    open_.erase(one);
  }

  core::RandomStream random_;
  std::unique_ptr<AdmissionController> controller_;
  std::array<ClassLimits, 2> classes_;
  std::vector<TenantLimits> tenants_;
  std::map<std::uint64_t, Arrival> waiting_, open_;
  std::map<Precedence, core::Instant> full_for_;
  core::Instant now_ = kNow;
  std::uint64_t next_ = 1;
  std::int64_t room_ = 1;
};

TEST(OverloadProperty, EachSegmentGetsExactlyTheActionThatItsPolicyStates) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    RandomOverload world{seed};
    for (int i = 0; i < 600; ++i) {
      world.step();
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace penstock::admission
