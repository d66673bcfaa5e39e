#include <gtest/gtest.h>

#include "net/address.h"

namespace penstock::net {
namespace {

TEST(Url, IsParsed) {
  struct Case {
    const char* text;
    bool tls;
    const char* host;
    int port;
    const char* path;
    const char* host_field;
  };
  for (const Case& each : {
           Case{"http://host", false, "host", 80, "", "host:80"},
           Case{"https://host", true, "host", 443, "", "host:443"},
           Case{"HTTPS://Host/", true, "Host", 443, "", "Host:443"},
           Case{"http://host:8000/prefix", false, "host", 8000, "/prefix", "host:8000"},
           Case{"http://a-b.c_d.e:1/x/y%20z//", false, "a-b.c_d.e", 1, "/x/y%20z", "a-b.c_d.e:1"},
           Case{"host:8000", false, "host", 8000, "", "host:8000"},
           Case{"host:8000/v1", false, "host", 8000, "/v1", "host:8000"},
           Case{"127.0.0.1:65535", false, "127.0.0.1", 65535, "", "127.0.0.1:65535"},
           Case{"http://[::1]", false, "::1", 80, "", "[::1]:80"},
           Case{"[2001:db8::1]:9000/", false, "2001:db8::1", 9000, "", "[2001:db8::1]:9000"},
           Case{"http://10x.pods.local", false, "10x.pods.local", 80, "", "10x.pods.local:80"},
       }) {
    const auto url = parse_url(each.text);
    ASSERT_TRUE(url) << url.error().message();
    EXPECT_EQ(url->tls, each.tls) << each.text;
    EXPECT_EQ(url->host, each.host) << each.text;
    EXPECT_EQ(url->port, each.port) << each.text;
    EXPECT_EQ(url->path, each.path) << each.text;
    EXPECT_EQ(url->host_field(), each.host_field) << each.text;
  }
}

TEST(Url, SaysWhatIsWrong) {
  struct Case {
    std::string text;
    const char* fault;
  };
  for (const Case& each : {
           Case{"", "it has no host"},
           Case{"http://", "it has no host"},
           Case{"http:///path", "it has no host"},
           Case{"ftp://host", "its scheme is neither http nor https"},
           Case{"host", "it has neither http:// nor a port"},
           Case{"http://host:", "its port is not a number from 1 to 65535"},
           Case{"http://host:0", "its port is not a number from 1 to 65535"},
           Case{"http://host:65536", "its port is not a number from 1 to 65535"},
           Case{"host:+1", "its port is not a number from 1 to 65535"},
           Case{"host:80x", "its port is not a number from 1 to 65535"},
           Case{"http://user@host", "it has a user name; remove it and configure keys separately"},
           Case{"http://host/a?b", "it has a query"},
           Case{"http://host?b", "it has a query"},
           Case{"http://host#b", "it has a fragment"},
           Case{"http://host/a b", "its path has a character that must be written as %XX"},
           Case{"http://host/a\r\nx", "its path has a character that must be written as %XX"},
           Case{"http://host/%2", "a '%' of its path is not followed by two hexadecimal digits"},
           Case{"http://host/%zz", "a '%' of its path is not followed by two hexadecimal digits"},
           Case{"http://ho st", "its host has an invalid character"},
           Case{"http://h\xc3\xb6st", "its host has an invalid character"},
           Case{"http://a..b", "its host has an empty part"},
           Case{"http://a.", "its host has an empty part"},
           Case{"http://127.1", "its host is not a whole IPv4 address"},
           Case{"http://0x7f.0x1", "its host is not a whole IPv4 address"},
           Case{"http://256.0.0.1", "its host is not a whole IPv4 address"},
           Case{"http://::1", "an IPv6 address must be in brackets"},
           Case{"::1:80", "an IPv6 address must be in brackets"},
           Case{"http://[::1", "the bracket of its IPv6 address is not closed"},
           Case{"http://[::1]80", "only a port may follow the brackets"},
           Case{"http://[127.0.0.1]", "the text in brackets is not an IPv6 address"},
           Case{"http://" + std::string(64, 'a'), "a part of its host is longer than 63 bytes"},
           Case{"http://host/" + std::string(2048, 'a'), "it is longer than 2048 bytes"},
       }) {
    const auto url = parse_url(each.text);
    ASSERT_FALSE(url) << each.text;
    EXPECT_NE(url.error().what.find(each.fault), std::string::npos) << each.text << ": " << url.error().message();
    EXPECT_EQ(url.error().message().find_first_of("\r\n"), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock::net
