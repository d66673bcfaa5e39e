#include "gateway/large_bodies.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace penstock::gateway {
namespace {

TEST(LargeBodies, TenantsTakeTurns) {
  std::string order;
  std::promise<void> begin, end;
  {
    LargeBodies bodies{1};
    bodies.submit(0, [&] { begin.get_future().wait(); });
    for (int i = 0; i < 4; ++i) bodies.submit(1, [&] { order += 'a'; });
    for (int i = 0; i < 2; ++i) bodies.submit(2, [&] { order += 'b'; });
    bodies.submit(3, [&] { order += 'c'; });
    begin.set_value();
    while (true) {
      std::promise<void> done;
      bodies.submit(0, [&] { done.set_value(); });
      done.get_future().wait();
      if (order.size() == 7) break;
    }
  }
  EXPECT_EQ(order, "abcabaa");
}

TEST(LargeBodies, AWaitingTaskIsCancelledAndARunningOneIsNot) {
  std::promise<void> running, go;
  bool ran = false;
  {
    LargeBodies bodies{1};
    const auto first = bodies.submit(1, [&] {
      running.set_value();
      go.get_future().wait();
    });
    running.get_future().wait();
    const auto second = bodies.submit(1, [&] { ran = true; });
    EXPECT_FALSE(bodies.cancel(1, first));
    EXPECT_FALSE(bodies.cancel(2, second));
    EXPECT_TRUE(bodies.cancel(1, second));
    EXPECT_FALSE(bodies.cancel(1, second));
    go.set_value();
  }
  EXPECT_FALSE(ran);
}

TEST(LargeBodies, TheEndDropsWhatWaits) {
  std::promise<void> running;
  std::promise<void> go;
  bool ran = false;
  std::thread release;
  {
    LargeBodies bodies{1};
    bodies.submit(1, [&] {
      running.set_value();
      go.get_future().wait();
    });
    bodies.submit(1, [&] { ran = true; });
    running.get_future().wait();
    release = std::thread{[&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      go.set_value();
    }};
  }
  release.join();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace penstock::gateway
