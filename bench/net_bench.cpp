// The server side of the network: heads, and requests and streamed tokens over loopback sockets. A thread plays the
// clients; the CPU time of the server's own thread is what counts.
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "net/address.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/server.h"

namespace {

using namespace penstock;

constexpr std::string_view kHead =
    "POST /v1/chat/completions HTTP/1.1\r\n"
    "Host: 127.0.0.1:8080\r\n"
    "Accept: application/json\r\n"
    "Accept-Encoding: gzip, deflate\r\n"
    "Connection: keep-alive\r\n"
    "User-Agent: OpenAI/Python 1.99.1\r\n"
    "Authorization: Bearer sk-0123456789abcdef0123456789abcdef0123456789abcdef\r\n"
    "X-Stainless-Lang: python\r\n"
    "X-Stainless-Runtime: CPython\r\n"
    "X-Stainless-Async: false\r\n"
    "Content-Type: application/json\r\n"
    "Content-Length: 1024\r\n\r\n";

void request_head(benchmark::State& state) {
  net::RequestHead head;
  for (auto _ : state) benchmark::DoNotOptimize(net::parse_request_head(kHead, head));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kHead.size()));
}
BENCHMARK(request_head);

void chunk_of_a_token(benchmark::State& state) {
  std::string bytes;
  net::append_chunk(bytes, std::string(200, 'x'));
  net::ChunkReader reader;
  for (auto _ : state) {
    for (std::string_view rest = bytes; !rest.empty();) rest.remove_prefix(reader.take(rest).consumed);
    benchmark::DoNotOptimize(reader);
  }
}
BENCHMARK(chunk_of_a_token);

// One loop with a server, run by the benchmark's thread, whose CPU time is measured.
class Bench final : public net::ExchangeHandler {
 public:
  explicit Bench(std::size_t tokens) : tokens_{tokens} {
    const auto listening = net::listen_on(net::Address{}, false);
    address_ = net::local_address(*listening);
    server_.emplace(loop_, *listening, *this);
  }
  void on_request(net::Exchange& exchange) override {
    static constexpr std::array<net::Field, 1> kFields = {net::Field{"Content-Type", "application/json"}};
    if (tokens_ == 0) return exchange.respond(200, kFields, answer_);
    exchange.start(200, kFields);
    for (std::size_t i = 0; i < tokens_; ++i) exchange.write(token_);
    exchange.finish();
  }
  std::string error_body(int, std::string_view) override { return {}; }

  // Runs until `connections` clients have had `each` answers.
  void run(int connections, int each) {
    std::thread clients{[&] {
      play(connections, each);
      loop_.stop();
    }};
    loop_.run();
    clients.join();
  }

 private:
  // Sends on all connections, then reads from all, so that the server finds work for many at each turn.
  void play(int connections, int each) const {
    std::vector<int> sockets;
    for (int i = 0; i < connections; ++i) {
      const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const int on = 1;
      setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      if (connect(one, static_cast<const sockaddr*>(address_.data()), address_.length()) != 0) std::abort();
      sockets.push_back(one);
    }
    const std::string request = std::string{kHead} + std::string(1024, ' ');
    const std::string_view last = tokens_ == 0 ? std::string_view{answer_} : net::kLastChunk;
    std::string got(64 * 1024, '\0');
    for (int round = 0; round < each; ++round) {
      for (const int one : sockets)
        if (send(one, request.data(), request.size(), MSG_NOSIGNAL) < 0) std::abort();
      for (const int one : sockets) {
        std::string_view answer;
        while (!answer.ends_with(last)) {
          const ssize_t size = recv(one, got.data(), got.size(), 0);
          if (size <= 0) std::abort();
          answer = {got.data(), static_cast<std::size_t>(size)};
        }
      }
    }
    for (const int one : sockets) close(one);
  }

  const std::size_t tokens_;
  const std::string answer_ = std::string(1023, 'x') + "}", token_ = "data: " + std::string(200, 'x') + "\n\n";
  net::Loop loop_;
  net::Address address_;
  std::optional<net::Server> server_;
};

double thread_cpu_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

void serve(benchmark::State& state, std::size_t tokens) {
  constexpr int kConnections = 32;
  const int each = tokens == 0 ? 1000 : 50;
  Bench bench{tokens};
  const double begin = thread_cpu_us();
  for (auto _ : state) bench.run(kConnections, each);
  const double answers = static_cast<double>(state.iterations()) * kConnections * each;
  state.counters["cpu_us_per_answer"] = (thread_cpu_us() - begin) / answers;
  if (tokens > 0)
    state.counters["cpu_us_per_token"] = (thread_cpu_us() - begin) / answers / static_cast<double>(tokens);
  state.counters["answers_per_s"] = benchmark::Counter(answers, benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(serve, answers_of_1_kb, 0)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(5);
BENCHMARK_CAPTURE(serve, streams_of_100_tokens, 100)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(5);

}  // namespace
