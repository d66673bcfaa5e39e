// What relaying costs: a load, a relay of the server and the client on one loop, and a server behind it, a thread each.
// The times shown are CPU of the relay's thread alone: for one request of 1 KB, and for one token of many open streams.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "net/client.h"
#include "net/server.h"

namespace {

using namespace penstock;
using net::Exchange;

double thread_cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// A server on a thread of its own.
template <class Handler>
class Served {
 public:
  template <class... Arguments>
  explicit Served(Arguments&&... arguments) {
    const int listening = *net::listen_on(net::Address{}, false);
    address_ = net::local_address(listening);
    handler_.emplace(loop_, std::forward<Arguments>(arguments)...);
    server_.emplace(loop_, listening, *handler_);
    thread_ = std::thread{[this] { loop_.run(); }};
  }
  ~Served() {
    loop_.stop();
    thread_.join();
    server_.reset();
    handler_.reset();
  }
  [[nodiscard]] const net::Address& address() const { return address_; }
  double cpu_s() {
    std::promise<double> told;
    loop_.post([&] { told.set_value(thread_cpu_s()); });
    return told.get_future().get();
  }

 private:
  net::Loop loop_;
  net::Address address_;
  std::optional<Handler> handler_;
  std::optional<net::Server> server_;
  std::thread thread_;
};

// Answers 1 KB, or streams tokens until the client disconnects.
class Backend final : public net::ExchangeHandler {
 public:
  explicit Backend(net::Loop& loop) : answer_(1024, 'x') {
    loop.every(std::chrono::milliseconds{5}, [this] { tick(); });
  }
  void on_request(Exchange& exchange) override {
    if (exchange.head().path() != "/stream") return exchange.respond(200, {}, answer_);
    static constexpr net::Field kEvents{"Content-Type", "text/event-stream"};
    exchange.start(200, {&kEvents, 1});
    exchange.flush();
    streams_.push_back(std::make_unique<Stream>(exchange));
  }
  std::string error_body(int, std::string_view) override { return {}; }

 private:
  struct Stream final : net::ExchangeListener {
    explicit Stream(Exchange& of) : exchange{&of} { of.listen(this); }
    void on_writable() override {}
    void on_client_gone() override { exchange = nullptr; }
    Exchange* exchange;
  };

  // Each stream has its turn every tenth tick: 20 tokens a second.
  void tick() {
    static constexpr std::string_view kToken =
        "data: {\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"model\":\"m\","
        "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"}}]}\n\n";
    turn_ = (turn_ + 1) % 10;
    for (std::size_t i = turn_; i < streams_.size(); i += 10)
      if (streams_[i]->exchange != nullptr) streams_[i]->exchange->write(kToken);
  }

  std::string answer_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::size_t turn_ = 0;
};

// Passes a request on and its answer back, as the gateway does it at its barest.
class Relay final : public net::ExchangeHandler {
 public:
  Relay(net::Loop& loop, const net::Address& backend) : client_{loop} { options_.address = backend; }
  void on_request(Exchange& exchange) override { new Passage{client_, options_, exchange}; }
  std::string error_body(int, std::string_view) override { return {}; }

 private:
  class Passage final : public net::ResponseListener, public net::ExchangeListener {
   public:
    Passage(net::Client& client, const net::CallOptions& options, Exchange& exchange) : exchange_{exchange} {
      exchange.listen(this);
      const net::RequestHead& head = exchange.head();
      request_.reserve(256);
      request_.append(head.method).append(" ").append(head.target);
      request_.append(" HTTP/1.1\r\nHost: backend\r\nContent-Type: application/json\r\nContent-Length: ");
      request_.append(std::to_string(exchange.body().size())).append("\r\n\r\n");
      call_ = &client.call(options, request_, exchange.body(), *this);
    }
    void on_head(const net::ResponseHead& head) override {
      std::string text = "HTTP/1.1 " + std::to_string(head.status) + " OK\r\n";
      for (const net::Field& field : head.fields)
        text.append(field.name).append(": ").append(field.value).append("\r\n");
      exchange_.start_raw(text + "\r\n", false);
    }
    void on_body(std::string_view bytes) override {
      if (!exchange_.write_raw(bytes)) call_->pause();
    }
    void on_end() override {
      exchange_.finish();
      delete this;
    }
    void on_fault(net::ClientFault, bool) override {
      exchange_.abort();
      delete this;
    }
    void on_writable() override { call_->resume(); }
    void on_client_gone() override {
      call_->cancel();
      delete this;
    }

   private:
    Exchange& exchange_;
    std::string request_;
    net::Call* call_ = nullptr;
  };

  net::Client client_;
  net::CallOptions options_ = [] {
    net::CallOptions options;
    options.raw = true;
    return options;
  }();
};

// Asks again as soon as it has its answer.
class Asker final : public net::ResponseListener {
 public:
  Asker(net::Loop& loop, net::Client& client, const net::CallOptions& options, std::int64_t& left)
      : loop_{loop}, client_{client}, options_{options}, left_{left} {}
  void ask() {
    static const std::string kBody(1024, 'p');
    client_.call(options_, "POST /v1/chat/completions HTTP/1.1\r\nHost: relay\r\nContent-Length: 1024\r\n\r\n", kBody,
                 *this);
  }
  void on_head(const net::ResponseHead&) override {}
  void on_body(std::string_view) override {}
  void on_end() override { --left_ > 0 ? ask() : loop_.stop(); }
  void on_fault(net::ClientFault, bool) override { std::abort(); }

 private:
  net::Loop& loop_;
  net::Client& client_;
  const net::CallOptions& options_;
  std::int64_t& left_;
};

void relayed_request(benchmark::State& state) {
  Served<Backend> backend;
  Served<Relay> relay{backend.address()};
  std::optional<net::Loop> loop{std::in_place};
  std::optional<net::Client> client{std::in_place, *loop};
  net::CallOptions options;
  options.address = relay.address();
  std::int64_t left = 0;
  std::vector<std::unique_ptr<Asker>> askers;
  for (std::int64_t i = 0; i < state.range(0); ++i)
    askers.push_back(std::make_unique<Asker>(*loop, *client, options, left));
  constexpr std::int64_t kRequests = 20'000;
  for (auto _ : state) {
    const double before = relay.cpu_s();
    left = kRequests + state.range(0) - 1;  // the last requests of each client are in flight at the end
    for (auto& asker : askers) asker->ask();
    loop->run();
    state.SetIterationTime((relay.cpu_s() - before) / static_cast<double>(kRequests));
    client.emplace(*loop);
  }
  client.reset();
}
BENCHMARK(relayed_request)
    ->Arg(32)
    ->ArgName("connections")
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMicrosecond);

// Counts what comes until the time is over.
class Listener final : public net::ResponseListener {
 public:
  explicit Listener(std::int64_t& tokens) : tokens_{tokens} {}
  void on_head(const net::ResponseHead&) override {}
  void on_body(std::string_view) override { ++tokens_; }
  void on_end() override {}
  void on_fault(net::ClientFault, bool) override { std::abort(); }

 private:
  std::int64_t& tokens_;
};

void relayed_token(benchmark::State& state) {
  Served<Backend> backend;
  Served<Relay> relay{backend.address()};
  net::Loop loop;
  net::Client client{loop};
  net::CallOptions options;
  options.address = relay.address();
  std::int64_t tokens = 0;
  Listener listener{tokens};
  for (std::int64_t i = 0; i < state.range(0); ++i)
    client.call(options, "GET /stream HTTP/1.1\r\nHost: relay\r\n\r\n", {}, listener);
  const auto run_for = [&](core::Duration time) {
    loop.after(time, [&] { loop.stop(); });
    loop.run();
  };
  run_for(std::chrono::seconds{1});  // until all streams run
  for (auto _ : state) {
    const double before = relay.cpu_s();
    tokens = 0;
    run_for(std::chrono::seconds{3});
    state.SetIterationTime((relay.cpu_s() - before) / static_cast<double>(std::max<std::int64_t>(tokens, 1)));
    state.counters["tokens_per_s"] = static_cast<double>(tokens) / 3.0;
  }
}
BENCHMARK(relayed_token)->Arg(1000)->ArgName("streams")->UseManualTime()->Iterations(2)->Unit(benchmark::kMicrosecond);

}  // namespace
