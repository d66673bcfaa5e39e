#include "net/host_names.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <vector>

#include "net/client_testing.h"

namespace penstock::net {
namespace {

using namespace std::chrono_literals;
using Addresses = Resolver::Addresses;

class HostNamesTest : public ::testing::Test {
 protected:
  static Address at(const char* host) { return *Address::parse(host, 80); }
  void answer(Addresses addresses) {
    const std::scoped_lock lock{mutex_};
    answer_ = std::move(addresses);
  }
  Addresses look_up() {
    const std::scoped_lock lock{mutex_};
    ++look_ups;
    return answer_;
  }
  // Runs the loop until the condition holds.
  template <class Condition>
  void run_until(Condition&& holds) {
    const auto timer = loop.every(1ms, [&] {
      if (holds()) loop.stop();
    });
    testing::run(loop);
    loop.cancel(timer);
  }
  void run_for_look_ups(int count) {
    run_until([this, last = look_ups + count] { return look_ups >= last; });
  }

  Loop loop;
  std::atomic<int> look_ups = 0;
  std::vector<HostChange> changes;

 private:
  std::mutex mutex_;
  Addresses answer_ = core::environment_error("vllm-0", "the name has no address");

 protected:
  HostNames names{loop, 20ms, [this](const HostChange& change) { changes.push_back(change); },
                  [this](const std::string&, std::uint16_t) { return look_up(); }};
};

TEST_F(HostNamesTest, ANameWithoutAnAddressIsLookedUpAgain) {
  const HostNames::Entry& entry = names.follow({"vllm-0", 80});
  EXPECT_FALSE(entry.looked_up);
  names.end_list();
  run_for_look_ups(3);
  EXPECT_TRUE(entry.looked_up);
  EXPECT_TRUE(entry.addresses.empty());
  EXPECT_EQ(entry.failure, "vllm-0: the name has no address");
  ASSERT_EQ(changes.size(), 1U) << "once for each cause";
  EXPECT_EQ(changes[0].failure, "vllm-0: the name has no address");
  answer(std::vector{at("10.0.0.1")});
  run_until([&] { return !entry.addresses.empty(); });
  EXPECT_EQ(entry.addresses.front(), at("10.0.0.1"));
  EXPECT_EQ(entry.failure, "");
  EXPECT_EQ(changes.size(), 2U);
}

TEST_F(HostNamesTest, ANewAddressReplacesTheFormerOne) {
  answer(std::vector{at("10.0.0.1"), at("10.0.0.2")});
  const HostNames::Entry& entry = names.follow({"vllm-0", 80});
  names.end_list();
  run_until([&] { return entry.looked_up; });
  answer(std::vector{at("10.0.0.2"), at("10.0.0.1")});
  run_for_look_ups(3);
  EXPECT_EQ(changes.size(), 1U) << "another order is no change";
  answer(std::vector{at("10.0.0.3")});
  run_until([&] { return changes.size() == 2; });
  EXPECT_EQ(entry.addresses, std::vector{at("10.0.0.3")});
  EXPECT_EQ(changes.back().host, "vllm-0");
  EXPECT_EQ(changes.back().addresses, "10.0.0.3:80");
}

TEST_F(HostNamesTest, AFailedLookUpKeepsTheLastAddresses) {
  answer(std::vector{at("10.0.0.1")});
  const HostNames::Entry& entry = names.follow({"vllm-0", 80});
  names.end_list();
  run_until([&] { return entry.looked_up; });
  answer(core::environment_error("vllm-0", "the name has no address"));
  run_until([&] { return !entry.failure.empty(); });
  EXPECT_EQ(entry.addresses, std::vector{at("10.0.0.1")});
}

TEST_F(HostNamesTest, HostsThatAreNotInTheListAreForgotten) {
  names.follow({"vllm-0", 80});
  names.follow({"vllm-1", 80});
  names.end_list();
  run_until([&] { return changes.size() == 2; });
  names.follow({"vllm-1", 80});
  names.end_list();
  EXPECT_TRUE(names.follow({"vllm-1", 80}).looked_up);
  EXPECT_FALSE(names.follow({"vllm-0", 80}).looked_up);
}

}  // namespace
}  // namespace penstock::net
