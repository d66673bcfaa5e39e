// A client of many streams, which measures the time between an engine's write and its own read: for measurements of
// gateways in front of mock_replica, whose tokens contain the time at which they were written.
//
//   stream_client --port N [--streams 1000] [--tokens 200] [--ramp-s 3] [--window-s 4] [--prompt-bytes 700] [--key KEY]
//     Opens the streams one after the other over the ramp, prints "open" once each has a token and "measured" with the
//     results of the window after that, and then exits. The gateway's CPU time is measured between these two lines.
//   stream_client --port N --streams 60 --tokens 10 --requests 315 [--key KEY]
//     Keeps this number of streams in flight, all with one prompt, until the requests have ended.
//
// Each line is an object of JSON. Times are in milliseconds.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/client.h"

namespace {

using namespace penstock;

struct Settings {
  double port = 0, streams = 1000, tokens = 200, ramp_s = 3, window_s = 4, requests = 0, prompt_bytes = 700;
  std::string key;
};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double quantile_ms(std::vector<std::int64_t>& times_ns, double share) {
  if (times_ns.empty()) return -1.0;
  const auto at = times_ns.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(times_ns.size() - 1));
  std::nth_element(times_ns.begin(), at, times_ns.end());
  return static_cast<double>(*at) / 1e6;
}

// What all streams of one run saw.
struct Sight {
  bool measuring = false;
  std::int64_t tokens = 0, faults = 0, refused = 0, begun = 0, ended = 0;
  std::vector<std::int64_t> first_ns, added_ns;
};

class Stream final : public net::ResponseListener {
 public:
  Stream(net::Client& client, const net::CallOptions& options, Sight& sight, std::function<void()> on_over)
      : client_(client), options_(options), sight_(sight), on_over_(std::move(on_over)) {}

  void begin(const std::string& request) {
    sent_ns_ = now_ns();
    has_token_ = false;
    held_.clear();
    client_.call(options_, request, {}, *this);
  }

 private:
  void on_head(const net::ResponseHead& head) override {
    if (head.status != 200) ++sight_.refused;
  }
  void on_body(std::string_view bytes) override {
    const std::int64_t now = now_ns();
    held_.append(bytes);
    std::size_t done = 0, at = held_.find(kMark);
    for (; at != std::string::npos; at = held_.find(kMark, done)) {
      const std::size_t begin = at + kMark.size(), end = held_.find('"', begin);
      if (end == std::string::npos) break;
      std::int64_t written = 0;
      std::from_chars(held_.data() + begin, held_.data() + end, written);
      note(now, now - written);
      done = end;
    }
    // A mark that is cut, or may be, is whole with the next piece.
    held_.erase(0, std::min(at, std::max(done, held_.size() - std::min(held_.size(), kMark.size() - 1))));
  }
  void on_end() override { over(); }
  void on_fault(net::ClientFault, bool) override {
    ++sight_.faults;
    over();
  }

  void note(std::int64_t now, std::int64_t added) {
    if (!std::exchange(has_token_, true)) {
      ++sight_.begun;
      sight_.first_ns.push_back(now - sent_ns_);
    }
    if (!sight_.measuring) return;
    ++sight_.tokens;
    sight_.added_ns.push_back(added);
  }
  void over() {
    ++sight_.ended;
    on_over_();
  }

  static constexpr std::string_view kMark = R"("content":" t)";

  net::Client& client_;
  const net::CallOptions& options_;
  Sight& sight_;
  std::function<void()> on_over_;
  std::int64_t sent_ns_ = 0;
  bool has_token_ = false;
  std::string held_;
};

class Run {
 public:
  Run(net::Loop& loop, const Settings& settings) : loop_(loop), settings_(settings), client_(loop, limits()) {
    options_.address = *net::Address::parse("127.0.0.1", static_cast<std::uint16_t>(settings.port));
    options_.head_time = options_.silence = std::chrono::seconds{30};
    const std::string body =
        fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"{}"}}],"max_tokens":{},"stream":true}})",
                    std::string(static_cast<std::size_t>(settings.prompt_bytes), 'x'), settings.tokens);
    request_ = fmt::format(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{}",
        settings.key, body.size(), body);
  }

  // So many at once until enough have ended.
  void keep_busy() {
    for (double i = 0; i < settings_.streams; ++i) {
      streams_.push_back(std::make_unique<Stream>(client_, options_, sight_, [this, at = streams_.size()] {
        if (sight_.ended >= static_cast<std::int64_t>(settings_.requests)) return loop_.stop();
        if (started_ < settings_.requests) start(at);
      }));
      start(streams_.size() - 1);
    }
  }

  void ramp() {
    loop_.every(kStep, [this] {
      const double due =
          settings_.streams * std::chrono::duration<double>(loop_.now() - began_).count() / settings_.ramp_s;
      while (started_ < std::min(due, settings_.streams)) {
        streams_.push_back(std::make_unique<Stream>(client_, options_, sight_, [] {}));
        start(streams_.size() - 1);
      }
      if (!sight_.measuring && sight_.begun + sight_.faults >= static_cast<std::int64_t>(settings_.streams)) measure();
      // Streams that never begin shall not hold up the run.
      if (loop_.now() - began_ > std::chrono::seconds{60}) loop_.stop();
    });
  }

  void tell(std::string_view what) {
    const double seconds = std::chrono::duration<double>(loop_.now() - window_began_).count();
    fmt::print(R"({{"phase":"{}","streams":{},"ended":{},"faults":{},"refused":{},"tokens":{},"tokens_per_s":{:.0f},)"
               R"("ttft_p50_ms":{:.3f},"ttft_p99_ms":{:.3f},"added_p50_ms":{:.3f},"added_p99_ms":{:.3f}}})"
               "\n",
               what, sight_.begun, sight_.ended, sight_.faults, sight_.refused, sight_.tokens,
               static_cast<double>(sight_.tokens) / std::max(seconds, 1e-3), quantile_ms(sight_.first_ns, 0.5),
               quantile_ms(sight_.first_ns, 0.99), quantile_ms(sight_.added_ns, 0.5),
               quantile_ms(sight_.added_ns, 0.99));
    std::fflush(stdout);
  }

 private:
  static constexpr core::Duration kStep = std::chrono::milliseconds{1};

  static net::ClientLimits limits() {
    net::ClientLimits limits;
    limits.connect_time = std::chrono::seconds{30};
    return limits;
  }

  void start(std::size_t stream) {
    ++started_;
    streams_[stream]->begin(request_);
  }

  void measure() {
    sight_.measuring = true;
    window_began_ = loop_.now();
    tell("open");
    loop_.after(core::from_seconds(settings_.window_s), [this] { loop_.stop(); });
  }

  net::Loop& loop_;
  const Settings& settings_;
  net::Client client_;
  net::CallOptions options_;
  std::string request_;
  Sight sight_;
  std::vector<std::unique_ptr<Stream>> streams_;
  double started_ = 0;
  const core::Instant began_ = net::Loop::read_clock();
  core::Instant window_began_ = began_;
};

bool read(int count, char** words, Settings& settings) {
  const std::pair<std::string_view, double*> numbers[] = {{"--port", &settings.port},
                                                          {"--streams", &settings.streams},
                                                          {"--tokens", &settings.tokens},
                                                          {"--ramp-s", &settings.ramp_s},
                                                          {"--window-s", &settings.window_s},
                                                          {"--requests", &settings.requests},
                                                          {"--prompt-bytes", &settings.prompt_bytes}};
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view flag = words[i], value = words[i + 1];
    if (flag == "--key") {
      settings.key = value;
      continue;
    }
    const auto* known =
        std::find_if(std::begin(numbers), std::end(numbers), [&](const auto& each) { return each.first == flag; });
    const char* const end = value.data() + value.size();
    if (known == std::end(numbers) || std::from_chars(value.data(), end, *known->second).ptr != end) {
      std::fprintf(stderr, "stream_client: cannot read %s %s\n", words[i], words[i + 1]);
      return false;
    }
  }
  return settings.port >= 1 && settings.port <= 65535 && settings.streams >= 1 && settings.ramp_s > 0;
}

}  // namespace

int main(int count, char** words) {
  Settings settings;
  if (!read(count, words, settings)) return 2;
  net::Loop loop;
  Run run{loop, settings};
  settings.requests > 0 ? run.keep_busy() : run.ramp();
  loop.run();
  run.tell("measured");
  return 0;
}
