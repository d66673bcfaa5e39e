#include "net/self_signed.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "net/grpc_server.h"
#include "net/grpc_testing.h"

namespace penstock::net {
namespace {

class Silent final : public GrpcHandler {
 public:
  void on_message(GrpcCall& call, std::string_view, bool) override { call.finish(GrpcStatus::kOk); }
  void on_gone(GrpcCall&) override {}
};

// A client that encrypts and verifies nothing. Describes what it sees.
struct Seen {
  std::string protocol, common_name;
  bool is_for_host = false, is_self_signed = false, lasts_nine_years = false;
};
std::optional<Seen> connect_without_verifying(const Address& address, const std::string& host) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  const unsigned char protocols[] = "\x02h2";
  SSL_CTX_set_alpn_protos(context.get(), protocols, sizeof protocols - 1);
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl{SSL_new(context.get()), SSL_free};
  SSL_set_fd(ssl.get(), descriptor);
  std::optional<Seen> seen;
  if (::connect(descriptor, static_cast<const sockaddr*>(address.data()), address.length()) == 0 &&
      SSL_connect(ssl.get()) == 1) {
    seen.emplace();
    const unsigned char* chosen = nullptr;
    unsigned length = 0;
    SSL_get0_alpn_selected(ssl.get(), &chosen, &length);
    seen->protocol.assign(reinterpret_cast<const char*>(chosen), length);
    X509* const certificate = SSL_get0_peer_certificate(ssl.get());
    char name[128] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
    seen->common_name = name;
    seen->is_for_host = X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1 ||
                        X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
    seen->is_self_signed = X509_verify(certificate, X509_get0_pubkey(certificate)) == 1;
    const std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)> later{X509_gmtime_adj(nullptr, 9L * 365 * 24 * 3600),
                                                                      ASN1_TIME_free};
    seen->lasts_nine_years = ASN1_TIME_compare(X509_get0_notAfter(certificate), later.get()) > 0;
  }
  ::close(descriptor);
  return seen;
}

TEST(SelfSigned, AClientThatDoesNotVerifyConnects) {
  for (const std::string& host : {std::string{"picker.inference.svc"}, std::string{"10.0.0.1"}, std::string{"::1"},
                                  "a." + std::string(60, 'b') + ".svc"}) {
    const auto made = self_signed_certificate(host);
    ASSERT_TRUE(made) << host;
    const auto tls = TlsContext::server(made->certificate, made->key);
    ASSERT_TRUE(tls) << host;
    (*tls)->use_http2();
    testing::GrpcServing<Silent> serving{{}, *tls};
    const auto seen = connect_without_verifying(serving.address, host);
    ASSERT_TRUE(seen) << host;
    EXPECT_EQ(seen->protocol, "h2");
    EXPECT_EQ(seen->common_name, host.substr(0, 64));
    EXPECT_TRUE(seen->is_for_host) << host;
    EXPECT_TRUE(seen->is_self_signed);
    EXPECT_TRUE(seen->lasts_nine_years);
  }
}

TEST(SelfSigned, EachHasAKeyOfItsOwn) {
  const auto one = self_signed_certificate("localhost"), two = self_signed_certificate("localhost");
  ASSERT_TRUE(one);
  ASSERT_TRUE(two);
  EXPECT_NE(one->key.text, two->key.text);
  EXPECT_NE(one->certificate.text, two->certificate.text);
  EXPECT_FALSE(TlsContext::server(one->certificate, two->key));
}

TEST(SelfSigned, WhatIsNoHostIsRefused) {
  for (const char* const host : {"", "a,DNS:b", "a b", "a\nb", "email:x"})
    EXPECT_FALSE(self_signed_certificate(host)) << host;
  EXPECT_FALSE(self_signed_certificate(std::string(254, 'a')));
}

}  // namespace
}  // namespace penstock::net
