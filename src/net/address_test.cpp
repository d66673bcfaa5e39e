#include "net/address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace penstock::net {
namespace {

TEST(Address, DefaultsToLoopbackWithoutAPort) { EXPECT_EQ(Address{}.text(), "127.0.0.1:0"); }

TEST(Address, ReadsNumericHostsOfBothKinds) {
  EXPECT_EQ(Address::parse("10.1.2.3", 8000)->text(), "10.1.2.3:8000");
  EXPECT_EQ(Address::parse("::1", 8000)->text(), "[::1]:8000");
  EXPECT_EQ(Address::parse("[2001:db8::7]", 65535)->text(), "[2001:db8::7]:65535");
  EXPECT_EQ(Address::parse("0.0.0.0", 0)->port(), 0);
}

TEST(Address, RejectsNonNumericHosts) {
  for (const std::string_view host : {"", "localhost", "127.1", "1.2.3.4.5", "256.1.1.1", "[127.0.0.1]", "[::1", "::1]",
                                      "::g", "1.2.3.4 ", "[]", "0x7f.0.0.1", "fe80::1%lo", "[[::1]]"})
    EXPECT_FALSE(Address::parse(host, 1)) << host;
  EXPECT_FALSE(Address::parse(std::string_view{"127.0.0.1\0x", 11}, 1));
}

TEST(Address, ComparesHostAndPort) {
  EXPECT_EQ(*Address::parse("::1", 1), *Address::parse("[::1]", 1));
  EXPECT_FALSE(*Address::parse("::1", 1) == *Address::parse("::1", 2));
  EXPECT_FALSE(*Address::parse("127.0.0.1", 1) == *Address::parse("127.0.0.2", 1));
}

TEST(Address, FromSystemIgnoresPaddingAndFlowLabels) {
  sockaddr_in6 seen{};
  seen.sin6_family = AF_INET6;
  seen.sin6_port = htons(80);
  seen.sin6_addr = in6addr_loopback;
  seen.sin6_flowinfo = 12345;
  EXPECT_EQ(Address::from_system(&seen, sizeof seen), *Address::parse("::1", 80));
}

TEST(Address, ResolvesNamesAndNumbers) {
  const auto named = Address::resolve("localhost", 81);
  ASSERT_TRUE(named) << named.error().message();
  EXPECT_TRUE(std::all_of(named->begin(), named->end(), [](const Address& each) { return each.port() == 81; }));
  EXPECT_EQ(Address::resolve("127.0.0.9", 82)->front().text(), "127.0.0.9:82");
  const auto missing = Address::resolve("no-such-host.invalid", 80);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, core::ErrorCode::kEnvironment);
  EXPECT_TRUE(missing.error().message().starts_with("no-such-host.invalid: the name has no address"));
}

TEST(ListenOn, ListensOnAFreePort) {
  const auto listening = listen_on(Address{}, false);
  ASSERT_TRUE(listening) << listening.error().message();
  EXPECT_NE(local_address(*listening).port(), 0);
  ::close(*listening);
}

TEST(ListenOn, NamesTheUsedPortAndARemedy) {
  const int first = *listen_on(Address{}, false);
  const Address address = local_address(first);
  const auto second = listen_on(address, false);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, core::ErrorCode::kEnvironment);
  const std::string port = std::to_string(address.port());
  EXPECT_EQ(second.error().message(), address.text() + ": port " + port +
                                          " is taken; stop the process that uses the port " +
                                          "(`ss -ltnp 'sport = :" + port + "'` shows it), or choose another port");
  ::close(first);
}

TEST(ListenOn, SharesAPortOnlyWhenRequested) {
  const int first = *listen_on(Address{}, true);
  const Address address = local_address(first);
  const auto second = listen_on(address, true);
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_FALSE(listen_on(address, false));
  ::close(first);
  ::close(*second);
}

TEST(ListenOn, ReportsAnAddressOfAnotherMachine) {
  const auto listening = listen_on(*Address::parse("192.0.2.1", 8080), false);
  ASSERT_FALSE(listening);
  EXPECT_NE(listening.error().message().find("port 8080 cannot be opened: this machine has no such address"),
            std::string::npos)
      << listening.error().message();
}

}  // namespace
}  // namespace penstock::net
