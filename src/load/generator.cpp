#include "load/generator.h"

#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "load/answer_timer.h"
#include "net/client.h"

namespace penstock::load {
namespace {

using core::Duration;

constexpr Duration kSweepInterval = std::chrono::milliseconds{20};
// Margin that keeps the client's timeouts above those of the generator.
constexpr Duration kMargin = std::chrono::minutes{1};
constexpr int kSendsAtOnce = 64;  // Sends per batch, after which responses get their turn.
constexpr std::size_t kResponseBytesMax = 256;
// Delay before a closed loop replaces a failed request, so that a server that rejects at once is not flooded.
constexpr Duration kRest = std::chrono::milliseconds{100};

double thread_cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

struct Generator::State {
  // One request and its response.
  struct ActiveRequest final : net::ResponseListener {
    ActiveRequest(State& state, std::uint64_t number, const PlannedRequest& planned, Duration sent)
        : owner{state}, id{number}, shape{planned.shape}, timer{planned.shape.stream, planned.at, sent} {}

    void on_head(const net::ResponseHead& head) override {
      message = {};
      is_good = head.status >= 200 && head.status < 300;
      timer.take_head(head.status, head.has_field("retry-after"), owner.now());
    }
    void on_body(std::string_view bytes) override {
      const Duration now = owner.now();
      if (!is_good && response.size() < kResponseBytesMax)
        response += bytes.substr(0, kResponseBytesMax - response.size());
      const AnswerTimer::Tokens tokens = timer.take_body(bytes, now);
      if (tokens.count == 0) return;
      if (!tokens.gap) owner.tally.record_first_token(*timer.record().ttft(), now);
      owner.tally.record_tokens(tokens, now);
    }
    void on_end() override {
      timer.end(owner.now());
      owner.ended(*this);
    }
    void on_fault(net::ClientFault fault, bool) override {
      timer.fault(fault, owner.now());
      owner.ended(*this);
    }

    State& owner;
    std::uint64_t id;
    RequestShape shape;
    AnswerTimer timer;
    Message message;  // Kept until the response head arrives.
    std::string response;
    net::Call* call = nullptr;
    bool is_good = false;
  };

  State(net::Loop& on, GeneratorOptions with, RequestSource from, Tally& into, std::function<void()> done)
      : loop{on},
        options{std::move(with)},
        source{std::move(from)},
        tally{into},
        on_done{std::move(done)},
        client{on, limits_for(options)} {}
  ~State() {
    loop.cancel(send_timer);
    loop.cancel(sweep_timer);
  }

  static net::ClientLimits limits_for(const GeneratorOptions& options) {
    net::ClientLimits limits;
    limits.idle_connections = std::max(options.max_in_flight, options.concurrency);
    return limits;
  }

  [[nodiscard]] Duration now() const { return net::Loop::read_clock() - started; }
  [[nodiscard]] bool is_closed_loop() const { return options.concurrency > 0; }
  [[nodiscard]] std::uint32_t places() const { return is_closed_loop() ? options.concurrency : options.max_in_flight; }
  [[nodiscard]] std::uint32_t in_flight() const { return static_cast<std::uint32_t>(active.size()); }

  // Called from the loop, never from within a listener, because it may destroy requests in flight.
  void pump();
  void pump_soon();
  bool prepare_next(Duration time);
  void send(Duration time);
  void give_up_unsent(Duration time);
  void ended(ActiveRequest& request);
  void sweep();
  void stop();

  net::Loop& loop;
  GeneratorOptions options;
  RequestSource source;
  Tally& tally;
  std::function<void()> on_done;
  core::Instant started{};
  double cpu_at_start_s = 0.0;
  Duration last_sent{};
  std::optional<PlannedRequest> next;
  bool next_is_held = false, source_is_dry = false, is_done = false, pump_is_posted = false;
  std::uint64_t numbers = 0;
  // Ordered by number, so that the first one has waited longest.
  std::map<std::uint64_t, std::unique_ptr<ActiveRequest>> active;
  std::deque<Duration> resting;                                // Closed loop: times at which slots become free again.
  std::vector<std::unique_ptr<ActiveRequest>> ended_requests;  // Requests that ended within their own callbacks.
  net::Loop::Timer send_timer = 0, sweep_timer = 0;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  net::Client client;  // Destroyed first; cancels the calls of requests in flight.
};

void Generator::State::pump_soon() {
  if (std::exchange(pump_is_posted, true)) return;
  loop.post([this, still = std::weak_ptr{alive}] {
    if (still.expired()) return;
    pump_is_posted = false;
    pump();
  });
}

// Returns true if a request is due. Otherwise schedules pump() for the time at which it will be.
bool Generator::State::prepare_next(Duration time) {
  if (!next && !source_is_dry) {
    next = source();
    next_is_held = false;
    if (next && is_closed_loop()) next->at = time;
    source_is_dry = !next || (is_closed_loop() && time >= options.duration);
    if (source_is_dry) next.reset();
  }
  if (!next) return false;
  if (next->at <= time) return true;
  loop.cancel(send_timer);
  // Relative to the loop's cached time, which may lag slightly.
  send_timer = loop.after(started + next->at - loop.now(), [this] { pump(); });
  return false;
}

void Generator::State::pump() {
  if (is_done) return;
  ended_requests.clear();
  for (int sends = 0;; ++sends) {
    const Duration time = now();
    if (is_closed_loop() && in_flight() + resting.size() >= places()) break;
    if (!prepare_next(time)) break;
    if (time - next->at >= options.timeout) {
      give_up_unsent(time);
    } else if (in_flight() >= places()) {
      next_is_held = true;
      break;
    } else {
      send(time);
    }
    if (sends >= kSendsAtOnce) return pump_soon();
  }
  if (source_is_dry && !next && active.empty()) {
    is_done = true;
    loop.cancel(std::exchange(sweep_timer, 0));
    on_done();
  }
}

void Generator::State::send(Duration time) {
  const std::uint64_t number = numbers++;
  auto request = std::make_unique<ActiveRequest>(*this, number, *next, time);
  request->message = write_request(options.dialect, next->shape, number);
  tally.record_sent({next->at, time, next_is_held});
  next.reset();
  last_sent = time;
  net::CallOptions call;
  call.address = options.address;
  call.tls = options.tls;
  call.host = options.tls_host;
  call.head_time = call.silence = options.timeout + kMargin;
  request->call = &client.call(call, request->message.head, request->message.body, *request);
  active.emplace(number, std::move(request));
  tally.record_in_flight(in_flight(), time);
}

void Generator::State::give_up_unsent(Duration time) {
  AnswerTimer timer{next->shape.stream, next->at, time};
  timer.give_up(Outcome::kTimedOut, time);
  tally.record_unsent(next->at);
  tally.record_end(timer.record(), next->shape, {});
  next.reset();
}

void Generator::State::ended(ActiveRequest& request) {
  const RequestRecord& record = request.timer.record();
  tally.record_end(record, request.shape, request.response);
  if (is_closed_loop() && record.outcome != Outcome::kOk) resting.push_back(record.end + kRest);
  auto node = active.extract(request.id);
  ended_requests.push_back(std::move(node.mapped()));
  pump_soon();
}

void Generator::State::sweep() {
  const Duration time = now();
  tally.record_in_flight(in_flight(), time);
  while (!active.empty()) {
    ActiveRequest& oldest = *active.begin()->second;
    if (time - oldest.timer.record().intended < options.timeout) break;
    oldest.call->cancel();
    oldest.timer.give_up(Outcome::kTimedOut, time);
    ended(oldest);
  }
  const bool had_rest = !resting.empty() && resting.front() <= time;
  while (!resting.empty() && resting.front() <= time) resting.pop_front();
  // A request that waits for max_in_flight may have timed out.
  if (had_rest || (next && next_is_held)) pump_soon();
}

void Generator::State::stop() {
  source_is_dry = true;
  next.reset();
  const Duration time = now();
  while (!active.empty()) {
    ActiveRequest& request = *active.begin()->second;
    request.call->cancel();
    request.timer.give_up(Outcome::kCancelled, time);
    ended(request);
  }
  pump_soon();
}

Generator::Generator(net::Loop& loop, GeneratorOptions options, RequestSource source, Tally& tally,
                     std::function<void()> on_done)
    : state_{std::make_unique<State>(loop, std::move(options), std::move(source), tally, std::move(on_done))} {}
Generator::~Generator() = default;

void Generator::start() {
  State& state = *state_;
  state.started = net::Loop::read_clock();
  state.cpu_at_start_s = thread_cpu_s();
  state.sweep_timer = state.loop.every(kSweepInterval, [&state] { state.sweep(); });
  state.pump_soon();
}

void Generator::stop() { state_->stop(); }
Duration Generator::elapsed() const { return state_->now(); }
std::uint32_t Generator::in_flight() const { return state_->in_flight(); }
bool Generator::at_limit() const { return state_->next.has_value() && state_->next_is_held; }
Duration Generator::sending_time() const { return state_->last_sent; }
double Generator::cpu_s() const { return thread_cpu_s() - state_->cpu_at_start_s; }

}  // namespace penstock::load
