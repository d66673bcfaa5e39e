#include "net/resolver.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>

namespace penstock::net {
namespace {

using namespace std::chrono_literals;

void run(Loop& loop) {
  const auto timeout = loop.after(30s, [&] { loop.stop(); });
  loop.run();
  loop.cancel(timeout);
}

TEST(Resolver, ResolvesNamesOnTheLoop) {
  Loop loop;
  Resolver resolver{loop};
  std::optional<Resolver::Addresses> result;
  resolver.resolve("localhost", 8000, [&](Resolver::Addresses addresses) {
    result = std::move(addresses);
    loop.stop();
  });
  EXPECT_FALSE(result);
  run(loop);
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->front().port(), 8000);
}

TEST(Resolver, ReportsWhyANameHasNoAddress) {
  Loop loop;
  Resolver resolver{loop, [](const std::string& host, std::uint16_t) -> Resolver::Addresses {
                      return core::environment_error(host, "the name has no address");
                    }};
  std::string why;
  resolver.resolve("unknown-host", 80, [&](const Resolver::Addresses& addresses) {
    why = addresses ? "" : addresses.error().message();
    loop.stop();
  });
  run(loop);
  EXPECT_NE(why.find("unknown-host"), std::string::npos) << why;
}

TEST(Resolver, DoesNotBlockTheLoop) {
  Loop loop;
  std::promise<void> known;
  Resolver resolver{loop, [answer = known.get_future().share()](const std::string&, std::uint16_t port) {
                      answer.wait();
                      return Resolver::Addresses{{*Address::parse("127.0.0.1", port)}};
                    }};
  bool result = false;
  resolver.resolve("slow", 80, [&](const Resolver::Addresses&) {
    result = true;
    loop.stop();
  });
  int turns = 0;
  loop.every(1ms, [&] {
    EXPECT_FALSE(result);
    if (++turns == 3) known.set_value();
  });
  run(loop);
  EXPECT_TRUE(result);
  EXPECT_GE(turns, 3);
}

TEST(Resolver, MakesNoCallAfterDestruction) {
  Loop loop;
  bool result = false;
  {
    Resolver resolver{loop};
    for (int i = 0; i < 3; ++i) resolver.resolve("127.0.0.1", 80, [&](const Resolver::Addresses&) { result = true; });
  }
  loop.post([&] { loop.stop(); });
  run(loop);
  EXPECT_FALSE(result);
}

}  // namespace
}  // namespace penstock::net
