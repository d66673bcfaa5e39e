#include "net/tls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <string>

#include "net/tls_testing.h"

namespace penstock::net {
namespace {

using testing::TestCertificate;

std::array<int, 2> connected_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  return ends;
}

// Both ends in one thread, taking turns.
struct Pair {
  Pair(const std::shared_ptr<TlsContext>& server_tls, const std::shared_ptr<TlsContext>& client_tls,
       const std::string& host)
      : Pair{connected_pair(), server_tls, client_tls, host} {}
  Pair(std::array<int, 2> ends, const std::shared_ptr<TlsContext>& server_tls,
       const std::shared_ptr<TlsContext>& client_tls, const std::string& host)
      : server{ends[0], server_tls}, client{ends[1], client_tls, host} {}

  Transport server, client;
};

struct Exchanged {
  std::string text;
  bool failed = false;
};
// Sends head and body from the client until the server has received everything, or an error occurs.
Exchanged exchange(Transport& from, Transport& to, std::string_view head, std::string_view body) {
  Exchanged exchanged;
  const std::size_t size = head.size() + body.size();
  for (int turn = 0; turn < 100'000 && exchanged.text.size() < size && !exchanged.failed; ++turn) {
    if (!head.empty() || !body.empty()) {
      const auto sent = from.write(head, body);
      exchanged.failed = sent.failed || sent.closed;
      const std::size_t of_head = std::min(sent.bytes, head.size());
      head.remove_prefix(of_head);
      body.remove_prefix(sent.bytes - of_head);
    } else {
      char unused = 0;
      static_cast<void>(from.read(&unused, 1));
    }
    std::array<char, 5000> piece;
    const auto got = to.read(piece.data(), piece.size());
    exchanged.failed = exchanged.failed || got.failed || got.closed;
    exchanged.text.append(piece.data(), got.bytes);
  }
  return exchanged;
}

std::string large_text() {
  std::string text;
  while (text.size() < 1'000'000) text += std::to_string(text.size()) + ",";
  return text;
}

TEST(Transport, SendsBothPartsOfAMessagePlain) {
  Pair pair{nullptr, nullptr, {}};
  EXPECT_FALSE(pair.client.is_tls());
  EXPECT_EQ(exchange(pair.client, pair.server, "head,", "body").text, "head,body");
  const std::string large = large_text();
  EXPECT_EQ(exchange(pair.client, pair.server, "head,", large).text, "head," + large);
}

TEST(Transport, DistinguishesAClosedPeerFromAnIdleOne) {
  Pair pair{nullptr, nullptr, {}};
  char byte = 0;
  EXPECT_TRUE(pair.server.read(&byte, 1).wants_read);
  { const Transport gone{std::move(pair.client)}; }
  EXPECT_TRUE(pair.server.read(&byte, 1).closed);
  EXPECT_TRUE(pair.server.write("x").closed);  // No SIGPIPE is raised.
}

TEST(Tls, TransfersBothWaysWithPartialWrites) {
  const TestCertificate certificate;
  Pair pair{certificate.server(), certificate.client(), "localhost"};
  EXPECT_TRUE(pair.client.is_tls());
  const std::string large = large_text();
  EXPECT_EQ(exchange(pair.client, pair.server, "head,", large).text, "head," + large);
  EXPECT_EQ(exchange(pair.server, pair.client, large, "tail").text, large + "tail");
  EXPECT_EQ(exchange(pair.client, pair.server, "small", {}).text, "small");
}

TEST(Tls, ReportsPendingDecryptedBytes) {
  const TestCertificate certificate;
  Pair pair{certificate.server(), certificate.client(), "localhost"};
  EXPECT_EQ(exchange(pair.client, pair.server, "x", {}).text, "x");
  ASSERT_EQ(pair.server.write("hello").bytes, 5U);
  std::array<char, 2> few{};
  EXPECT_EQ(pair.client.read(few.data(), few.size()).bytes, 2U);
  EXPECT_TRUE(pair.client.has_pending());
  EXPECT_EQ(pair.client.read(few.data(), few.size()).bytes, 2U);
  EXPECT_EQ(pair.client.read(few.data(), few.size()).bytes, 1U);
  EXPECT_TRUE(pair.client.read(few.data(), few.size()).wants_read);
  EXPECT_FALSE(pair.client.has_pending());
}

TEST(Tls, VerifiesTheServerName) {
  const TestCertificate certificate;
  for (const char* host : {"other", "127.0.0.2", "localhost.example"}) {
    Pair pair{certificate.server(), certificate.client(), host};
    EXPECT_TRUE(exchange(pair.client, pair.server, "x", {}).failed) << host;
  }
  Pair numeric{certificate.server(), certificate.client(), "127.0.0.1"};
  EXPECT_EQ(exchange(numeric.client, numeric.server, "x", {}).text, "x");
}

TEST(Tls, TrustsOnlyTheGivenCertificates) {
  const TestCertificate certificate, other;
  Pair stranger{certificate.server(), other.client(), "localhost"};
  EXPECT_TRUE(exchange(stranger.client, stranger.server, "x", {}).failed);
  const auto system = TlsContext::client();
  ASSERT_TRUE(system) << system.error().message();
  Pair unknown{certificate.server(), *system, "localhost"};
  EXPECT_TRUE(exchange(unknown.client, unknown.server, "x", {}).failed);
}

TEST(Tls, DistinguishesCloseNotifyFromTruncation) {
  const TestCertificate certificate;
  char byte = 0;
  Pair meant{certificate.server(), certificate.client(), "localhost"};
  EXPECT_EQ(exchange(meant.client, meant.server, "x", {}).text, "x");
  { const Transport gone{std::move(meant.client)}; }
  EXPECT_TRUE(meant.server.read(&byte, 1).closed);

  Pair cut{certificate.server(), certificate.client(), "localhost"};
  EXPECT_EQ(exchange(cut.client, cut.server, "x", {}).text, "x");
  ::shutdown(cut.client.descriptor(), SHUT_RDWR);
  EXPECT_TRUE(cut.server.read(&byte, 1).failed);
}

TEST(Tls, FailsOnPlainText) {
  const TestCertificate certificate;
  Pair pair{certificate.server(), nullptr, {}};
  ASSERT_GT(pair.client.write("GET / HTTP/1.1\r\n\r\n").bytes, 0U);
  char byte = 0;
  EXPECT_TRUE(pair.server.read(&byte, 1).failed);
  EXPECT_TRUE(pair.server.read(&byte, 1).failed);
}

TEST(TlsContext, NamesTheInvalidFile) {
  const TestCertificate certificate;
  const std::string broken = certificate.folder() + "/broken.pem", missing = certificate.folder() + "/missing.pem";
  std::ofstream{broken} << "-----BEGIN CERTIFICATE-----\nno\n";
  const auto message = [](const core::Result<std::shared_ptr<TlsContext>>& made) {
    return made ? std::string{} : made.error().message();
  };
  EXPECT_TRUE(message(TlsContext::server(missing, certificate.key())).starts_with(missing + ": cannot be used"));
  EXPECT_TRUE(message(TlsContext::server(broken, certificate.key())).starts_with(broken + ": cannot be used"));
  EXPECT_TRUE(message(TlsContext::server(certificate.certificate(), broken)).starts_with(broken + ": cannot be used"));
  EXPECT_TRUE(message(TlsContext::client(missing)).starts_with(missing + ": contains no trusted certificates"));
  EXPECT_TRUE(message(TlsContext::client(certificate.key())).starts_with(certificate.key() + ": contains no"));
}

TEST(TlsContext, RequiresTheKeyOfTheCertificate) {
  const TestCertificate certificate, other;
  EXPECT_FALSE(TlsContext::server(certificate.certificate(), other.key()));
}

}  // namespace
}  // namespace penstock::net
