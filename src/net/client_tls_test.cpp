#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <chrono>
#include <string>

#include "net/client.h"
#include "net/client_testing.h"
#include "net/tls_testing.h"

namespace penstock::net {
namespace {

using namespace testing;

CallOptions secure(const ScriptedServer& server, const std::shared_ptr<TlsContext>& tls,
                   const std::string& host = "localhost") {
  CallOptions options = to(server.address());
  options.tls = tls;
  options.host = host;
  return options;
}

void answer_all(Peer& peer, int) {
  while (peer.read_request()) peer.send(kHello);
}

// A server that sends the last byte of its handshake after a while, and no session tickets.
class SlowHandshakeServer {
 public:
  explicit SlowHandshakeServer(const TestCertificate& certificate) : context_{SSL_CTX_new(TLS_server_method())} {
    EXPECT_EQ(SSL_CTX_use_certificate_file(context_, certificate.certificate().c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_, certificate.key().c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(SSL_CTX_set_num_tickets(context_, 0), 1);
  }
  ~SlowHandshakeServer() { SSL_CTX_free(context_); }
  SlowHandshakeServer(const SlowHandshakeServer&) = delete;
  SlowHandshakeServer& operator=(const SlowHandshakeServer&) = delete;

  // Answers one request; the pause grows with the number of the connection.
  void serve(Peer& peer, int number) const {
    SSL* ssl = SSL_new(context_);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    SSL_set_accept_state(ssl);
    std::string request(16 * 1024, '\0');
    for (int got = -1; got <= 0;) {
      const std::string bytes = peer.take();
      if (bytes.empty()) break;
      BIO_write(in, bytes.data(), static_cast<int>(bytes.size()));
      got = SSL_read(ssl, request.data(), static_cast<int>(request.size()));
      if (got <= 0) send(peer, out, std::chrono::microseconds{number % 1000});
    }
    SSL_write(ssl, kHello.data(), static_cast<int>(kHello.size()));
    send(peer, out, {});
    SSL_free(ssl);
  }

 private:
  static void send(Peer& peer, BIO* out, std::chrono::microseconds pause) {
    std::string bytes(BIO_ctrl_pending(out), '\0');
    if (bytes.empty()) return;
    BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
    peer.send(std::string_view{bytes}.substr(0, bytes.size() - 1));
    const auto until = std::chrono::steady_clock::now() + pause;
    while (std::chrono::steady_clock::now() < until) {}
    peer.send(std::string_view{bytes}.substr(bytes.size() - 1));
  }

  SSL_CTX* context_;
};

TEST(ClientTls, KeepsConnectionsByServerNameAndContext) {
  const TestCertificate certificate;
  ScriptedServer server{answer_all, certificate.server()};
  const auto tls = certificate.client(), other = certificate.client();
  Loop loop;
  Client client{loop};
  for (const auto& options : {secure(server, tls), secure(server, tls), secure(server, tls, "127.0.0.1"),
                              secure(server, other), secure(server, other), secure(server, tls)}) {
    Recorder recorder{loop};
    client.call(options, kGet, {}, recorder);
    run(loop);
    EXPECT_EQ(recorder.body, "hello");
  }
  EXPECT_EQ(server.accepted(), 3);
}

TEST(ClientTls, RejectsAServerWithAnotherName) {
  const TestCertificate certificate, stranger;
  ScriptedServer server{answer_all, certificate.server()};
  Loop loop;
  Client client{loop};
  for (const auto& options : {secure(server, certificate.client(), "other"), secure(server, stranger.client())}) {
    Recorder recorder{loop};
    client.call(options, kGet, {}, recorder);
    run(loop);
    EXPECT_EQ(recorder.fault, ClientFault::kConnect);
    EXPECT_FALSE(recorder.answered);
  }
}

TEST(ClientTls, RejectsAServerWithoutTls) {
  const TestCertificate certificate;
  ScriptedServer server{[](Peer& peer, int) {
    peer.read_some();
    peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
  }};
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  client.call(secure(server, certificate.client()), kGet, {}, recorder);
  run(loop);
  EXPECT_EQ(recorder.fault, ClientFault::kConnect);
}

// The rest of the handshake may arrive after the attempt to send the request and before the following read, which then
// ends the handshake. The request must be sent all the same.
TEST(ClientTls, SendsItsRequestWhenAReadEndsTheHandshake) {
  const TestCertificate certificate;
  const SlowHandshakeServer handshakes{certificate};
  ScriptedServer server{[&](Peer& peer, int number) { handshakes.serve(peer, number); }};
  Loop loop;
  Client client{loop};
  for (int i = 0; i < 1000; ++i) {
    Recorder recorder{loop};
    client.call(secure(server, certificate.client()), kGet, {}, recorder);
    run(loop);
    ASSERT_EQ(recorder.body, "hello") << "connection " << i;
  }
}

TEST(ClientTls, CarriesLargeBodiesBothWaysWithPauses) {
  const TestCertificate certificate;
  const std::string large(4 * 1024 * 1024, 'x');
  std::size_t seen = 0;
  ScriptedServer server{
      [&](Peer& peer, int) {
        seen = peer.read_request().value().size();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(large.size()) + "\r\n\r\n" + large);
        peer.wait_until_closed();
      },
      certificate.server()};
  {
    Loop loop;
    Client client{loop};
    Recorder recorder{loop};
    const std::string head =
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(large.size()) + "\r\n\r\n";
    Call& call = client.call(secure(server, certificate.client()), head, large, recorder);
    recorder.at_body = [&] {
      call.pause();
      if (recorder.pieces % 2 == 0) return call.resume();
      loop.after(std::chrono::milliseconds{1}, [&] {
        if (recorder.ends + recorder.faults == 0) call.resume();
      });
    };
    run(loop);
    EXPECT_EQ(recorder.ends, 1);
    EXPECT_TRUE(recorder.body == large);
    EXPECT_EQ(seen, head.size() + large.size());
  }
}

TEST(ClientTls, RequiresCloseNotifyAfterABodyWithoutALength) {
  const TestCertificate certificate;
  for (const bool cut : {false, true}) {
    ScriptedServer server{[&](Peer& peer, int) {
                            peer.read_request();
                            peer.send("HTTP/1.1 200 OK\r\n\r\nsome");
                            std::this_thread::sleep_for(std::chrono::milliseconds{5});
                            if (cut) peer.cut();
                          },
                          certificate.server()};
    Loop loop;
    Client client{loop};
    Recorder recorder{loop};
    client.call(secure(server, certificate.client()), kGet, {}, recorder);
    run(loop);
    EXPECT_EQ(recorder.body, "some");
    EXPECT_EQ(recorder.ends, cut ? 0 : 1);
  }
}

TEST(ClientTls, ReplacesAStaleConnectionOnce) {
  const TestCertificate certificate;
  ScriptedServer server{[&](Peer& peer, int number) {
                          peer.read_request();
                          peer.send(kHello);
                          peer.read_request();
                          if (number == 0) return;
                          peer.send(kHello);
                          peer.wait_until_closed();
                        },
                        certificate.server()};
  const auto tls = certificate.client();
  Loop loop;
  Client client{loop};
  for (int i = 0; i < 2; ++i) {
    Recorder recorder{loop};
    client.call(secure(server, tls), kGet, {}, recorder);
    run(loop);
    EXPECT_EQ(recorder.body, "hello");
  }
  EXPECT_EQ(server.accepted(), 2);
}

}  // namespace
}  // namespace penstock::net
