#include "load/burst.h"

#include <utility>

#include "core/result.h"
#include "load/request_writer.h"
#include "net/client.h"

namespace penstock::load {
namespace {

using core::Duration;

constexpr std::size_t kBurstResponseBytesMax = 256;
constexpr Duration kBurstMargin = std::chrono::minutes{1};  // Keeps the client's time limits above the burst's.

}  // namespace

struct BurstSender::State {
  struct Member final : net::ResponseListener {
    Member(State& state, bool stream, Duration sent) : owner{state}, timer{stream, sent, sent} {}

    void on_head(const net::ResponseHead& head) override {
      is_good = head.status >= 200 && head.status < 300;
      timer.take_head(head.status, head.has_field("retry-after"), owner.now());
    }
    void on_body(std::string_view bytes) override {
      const Duration now = owner.now();
      if (!is_good && answer.response.size() < kBurstResponseBytesMax)
        answer.response += bytes.substr(0, kBurstResponseBytesMax - answer.response.size());
      const AnswerTimer::Tokens tokens = timer.take_body(bytes, now);
      answer.token_times.insert(answer.token_times.end(), tokens.count, now);
    }
    void on_end() override {
      call = nullptr;
      timer.end(owner.now());
      owner.ended(*this);
    }
    void on_fault(net::ClientFault fault, bool) override {
      call = nullptr;
      timer.fault(fault, owner.now());
      owner.ended(*this);
    }

    State& owner;
    AnswerTimer timer;
    Message message;
    BurstAnswer answer;
    net::Call* call = nullptr;
    bool is_good = false;
  };

  State(net::Loop& on, GeneratorOptions with) : loop{on}, options{std::move(with)}, client{on, limits()} {}
  ~State() { loop.cancel(deadline); }

  static net::ClientLimits limits() {
    net::ClientLimits limits;
    limits.idle_connections = 4096;
    return limits;
  }
  [[nodiscard]] Duration now() const { return net::Loop::read_clock() - started; }

  void ended(Member& member) {
    if (finishing) return;
    --in_flight;
    if (in_flight == 0 || member.timer.record().outcome != Outcome::kOk) finish_soon(Outcome::kCancelled);
  }

  // Members may not be destroyed within their own callbacks.
  void finish_soon(Outcome outcome) {
    if (std::exchange(finishing, true)) return;
    loop.cancel(std::exchange(deadline, 0));
    loop.post([this, outcome, still = std::weak_ptr{alive}] {
      if (!still.expired()) finish(outcome);
    });
  }

  void finish(Outcome outcome) {
    std::vector<BurstAnswer> answers;
    for (const auto& member : members) {
      if (member->call != nullptr) {
        member->call->cancel();
        member->timer.give_up(outcome, now());
      }
      member->answer.record = member->timer.record();
      answers.push_back(std::move(member->answer));
    }
    members.clear();
    std::exchange(on_done, nullptr)(std::move(answers));
  }

  net::Loop& loop;
  GeneratorOptions options;
  core::Instant started{};
  std::uint64_t numbers = 0;
  std::size_t in_flight = 0;
  bool finishing = false;
  std::function<void(std::vector<BurstAnswer>)> on_done;
  std::vector<std::unique_ptr<Member>> members;
  net::Loop::Timer deadline = 0;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  net::Client client;  // Destroyed first; cancels the calls.
};

BurstSender::BurstSender(net::Loop& loop, GeneratorOptions options)
    : state_{std::make_unique<State>(loop, std::move(options))} {}
BurstSender::~BurstSender() = default;

void BurstSender::send(const std::vector<RequestShape>& shapes, std::function<void(std::vector<BurstAnswer>)> on_done) {
  State& state = *state_;
  PENSTOCK_ASSERT(state.members.empty() && !shapes.empty(), "one burst at a time");
  state.on_done = std::move(on_done);
  state.finishing = false;
  state.in_flight = shapes.size();
  std::vector<Message> messages;  // Texts are generated before the first request is sent.
  messages.reserve(shapes.size());
  for (const RequestShape& shape : shapes)
    messages.push_back(write_request(state.options.dialect, shape, state.numbers++));
  state.started = net::Loop::read_clock();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    auto member = std::make_unique<State::Member>(state, shapes[i].stream, state.now());
    member->message = std::move(messages[i]);
    net::CallOptions call;
    call.address = state.options.address;
    call.tls = state.options.tls;
    call.host = state.options.tls_host;
    call.head_time = call.silence = state.options.timeout + kBurstMargin;
    member->call = &state.client.call(call, member->message.head, member->message.body, *member);
    state.members.push_back(std::move(member));
  }
  state.deadline = state.loop.after(state.options.timeout, [&state] { state.finish_soon(Outcome::kTimedOut); });
}

}  // namespace penstock::load
