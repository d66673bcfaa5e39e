#include "net/takeover.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

namespace penstock::net {
namespace {

using Condition = TakeoverOffer::Condition;

std::string name_of(const std::string& test) { return fmt::format("penstock-test-{}-{}", ::getpid(), test); }

// An offer on a loop of its own.
class Offering {
 public:
  explicit Offering(const std::string& name, bool draining) {
    offer_.emplace(
        loop_, name, [draining](Condition condition) { return draining || condition == Condition::kAlways; },
        [this] { ++successors_; });
    thread_ = std::thread{[this] { loop_.run(); }};
  }
  ~Offering() {
    loop_.stop();
    thread_.join();
  }
  void wait_for_successor() const {
    while (successors_ == 0) std::this_thread::yield();
  }
  [[nodiscard]] int successors() const { return successors_; }

 private:
  Loop loop_;
  std::optional<TakeoverOffer> offer_;
  std::atomic<int> successors_{0};
  std::thread thread_;
};

TEST(Takeover, NoProcessOffersTheName) { EXPECT_FALSE(Takeover::request(name_of("none"), Condition::kAlways)); }

TEST(Takeover, AProcessThatServesIsReplacedOnDemandOnly) {
  const std::string name = name_of("serving");
  const Offering serving{name, false};
  EXPECT_FALSE(Takeover::request(name, Condition::kIfDraining));
  EXPECT_FALSE(Takeover::request(name, Condition::kIfDraining)) << "a refusal ends nothing";
  auto next = Takeover::request(name, Condition::kAlways);
  ASSERT_TRUE(next);
  EXPECT_EQ(serving.successors(), 0);
  next->report_listening();
  serving.wait_for_successor();
}

TEST(Takeover, TheNextProcessOffersTheNameWhileTheFirstStillDrains) {
  const std::string name = name_of("draining");
  const Offering draining{name, true};
  auto next = Takeover::request(name, Condition::kIfDraining);
  ASSERT_TRUE(next);
  const Offering second{name, true};
  next->report_listening();
  draining.wait_for_successor();
  auto third = Takeover::request(name, Condition::kIfDraining);
  ASSERT_TRUE(third);
  third->report_listening();
  second.wait_for_successor();
  EXPECT_EQ(draining.successors(), 1);
}

TEST(Takeover, AfterAFailedStartTheNameIsOfferedAgain) {
  const std::string name = name_of("again");
  const Offering draining{name, true};
  Takeover::request(name, Condition::kIfDraining).reset();
  std::optional<Takeover> next;
  while (!(next = Takeover::request(name, Condition::kIfDraining))) std::this_thread::yield();
  EXPECT_EQ(draining.successors(), 0) << "a request that was given up is no successor";
  next->report_listening();
  draining.wait_for_successor();
  EXPECT_EQ(draining.successors(), 1);
}

}  // namespace
}  // namespace penstock::net
