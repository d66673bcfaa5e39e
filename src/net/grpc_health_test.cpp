#include "net/grpc_health.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "net/grpc_testing.h"

namespace penstock::net {
namespace {

using namespace std::string_literals;
using testing::framed;
using Client = testing::GrpcClient;

const std::string kServing = framed("\x08\x01"), kNotServing = framed("\x08\x02"), kUnknown = framed("\x08\x03");

// Another service beside health, on one server: "/t.T/Echo" answers its message.
class Services final : public GrpcHandler {
 public:
  explicit Services(Loop& loop) : health{loop, [this](std::string_view service) { return is_serving(service); }} {}

  void on_message(GrpcCall& call, std::string_view message, bool is_first) override {
    if (GrpcHealth::serves(call)) return health.on_message(call, message, is_first);
    call.send(message);
    call.finish(GrpcStatus::kOk);
  }
  void on_gone(GrpcCall& call) override {
    if (GrpcHealth::serves(call)) health.on_gone(call);
  }
  [[nodiscard]] std::optional<bool> is_serving(std::string_view service) const {
    const auto found = serving.find(service);
    return found == serving.end() ? std::nullopt : std::optional{found->second};
  }

  std::map<std::string, bool, std::less<>> serving{{"", true}, {"readiness", false}};
  GrpcHealth health;
};

using Serving = testing::GrpcServing<Services>;

std::string request_for(std::string_view service) {
  if (service.empty()) return framed("");
  return framed("\x0a"s + static_cast<char>(service.size()) + std::string{service});
}

TEST(GrpcHealth, ChecksAnswerWhetherAServiceIsServing) {
  Serving serving;
  Client client{serving.address};
  const auto check = [&](std::string body) -> Client::Answer& {
    return client.wait(client.call("/grpc.health.v1.Health/Check", std::move(body)));
  };
  EXPECT_EQ(check(request_for("")).body, kServing);
  EXPECT_EQ(check(request_for("readiness")).body, kNotServing);
  serving.run([&] { serving.service.serving["readiness"] = true; });
  EXPECT_EQ(check(request_for("readiness")).body, kServing);
  auto& other = check(request_for("other"));
  EXPECT_EQ(other.fields["grpc-status"], "5");
  EXPECT_EQ(other.fields["grpc-message"], "no service other");
  EXPECT_EQ(check(framed("\x0a\x05x")).fields["grpc-status"], "3");
  EXPECT_EQ(check(framed("") + framed("")).fields["grpc-status"], "0");
  EXPECT_EQ(client.wait(client.call("/grpc.health.v1.Health/List", framed(""))).fields["grpc-status"], "12");
  EXPECT_EQ(client.wait(client.call("/t.T/Echo", framed("x"))).body, framed("x"));
}

TEST(GrpcHealth, AWatchIsToldTheStatusAndItsChanges) {
  Serving serving;
  Client client{serving.address};
  const std::int32_t ready = client.call("/grpc.health.v1.Health/Watch", request_for("readiness"));
  const std::int32_t later = client.call("/grpc.health.v1.Health/Watch", request_for("later"));
  ASSERT_TRUE(client.until([&] { return client.answers[later].body == kUnknown; }));
  EXPECT_EQ(client.answers[ready].body, kNotServing);
  serving.run([&] {
    serving.service.serving["readiness"] = true;
    serving.service.serving["later"] = false;
    serving.service.health.publish();
    serving.service.health.publish();
  });
  ASSERT_TRUE(client.until([&] { return client.answers[later].body == kUnknown + kNotServing; }));
  EXPECT_EQ(client.answers[ready].body, kNotServing + kServing);
  serving.run([&] { serving.service.serving["readiness"] = false; });
  ASSERT_TRUE(client.until([&] { return client.answers[ready].body == kNotServing + kServing + kNotServing; }))
      << "without publish() it takes a second";
  client.cancel(ready);
  serving.run([&] { serving.service.health.end_watches(); });
  EXPECT_EQ(client.wait(later).fields["grpc-status"], "14");
}

}  // namespace
}  // namespace penstock::net
