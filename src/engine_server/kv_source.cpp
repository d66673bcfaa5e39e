#include "engine_server/kv_source.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace penstock::engine_server {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr core::Duration kPace = std::chrono::milliseconds{5};  // Interval between two pieces.

}  // namespace

class KvSource::Sending final : public net::ExchangeListener {
 public:
  Sending(KvSource& source, net::Exchange& exchange, std::uint32_t of, std::uint64_t at, std::uint32_t tokens)
      : number(of),
        place(at),
        source_(source),
        exchange_(exchange),
        bytes_(std::uint64_t{tokens} * source.options_.wire_bytes_per_token),
        time_(core::from_seconds(tokens * source.options_.seconds_per_token)),
        begun_at_(source.loop_.now()) {
    exchange_.listen(this);
    const std::array fields{net::Field{"Content-Type", "application/octet-stream"}};
    exchange_.start(200, fields, bytes_);
    exchange_.flush();
    timer_ = source_.loop_.after({}, [this] { go_on(); });
  }
  ~Sending() { source_.loop_.cancel(timer_); }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;

  void on_writable() override {
    if (timer_ == 0) go_on();
  }
  void on_client_gone() override { source_.end(*this, false); }

  const std::uint32_t number;
  const std::uint64_t place;

 private:
  void go_on() {
    timer_ = 0;
    const core::Duration passed = source_.loop_.now() - begun_at_;
    const bool is_last = passed >= time_;
    const auto due =
        is_last ? bytes_
                : std::min(bytes_, static_cast<std::uint64_t>(static_cast<double>(bytes_) * core::to_seconds(passed) /
                                                              core::to_seconds(time_)));
    static const std::string kPiece(kPieceBytes, 'k');
    while (sent_ < due) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(due - sent_, kPieceBytes));
      sent_ += size;
      if (!exchange_.write(std::string_view{kPiece}.substr(0, size))) return;  // Continued by on_writable().
    }
    if (is_last) {
      exchange_.finish();
      source_.end(*this, true);
      return;
    }
    timer_ = source_.loop_.after(std::min(kPace, time_ - passed), [this] { go_on(); });
  }

  KvSource& source_;
  net::Exchange& exchange_;
  std::uint64_t bytes_, sent_ = 0;
  core::Duration time_;
  core::Instant begun_at_;
  net::Loop::Timer timer_ = 0;
};

KvSource::KvSource(net::Loop& loop, const KvSourceOptions& options, std::function<void(std::uint32_t)> release)
    : loop_(loop), options_(options), release_(std::move(release)) {
  const core::Duration interval =
      std::clamp<core::Duration>(options.hold_time / 4, std::chrono::milliseconds{5}, std::chrono::seconds{1});
  sweep_timer_ = loop_.every(interval, [this] { sweep(); });
}

KvSource::~KvSource() { loop_.cancel(sweep_timer_); }

void KvSource::offer(std::uint32_t number, std::uint32_t tokens) {
  offers_[number] = {tokens, 0, loop_.now() + options_.hold_time};
}

void KvSource::serve(net::Exchange& exchange, std::uint32_t number) {
  Offer& offer = offers_.at(number);
  ++offer.sendings;
  const std::uint64_t place = next_sending_++;
  sendings_.emplace(place, std::make_unique<Sending>(*this, exchange, number, place, offer.tokens));
}

void KvSource::end(Sending& sending, bool whole) {
  const std::uint32_t number = sending.number;
  sendings_.erase(sending.place);
  const auto offer = offers_.find(number);
  if (offer == offers_.end()) return;  // Another transfer was faster.
  --offer->second.sendings;
  offer->second.expires = loop_.now() + options_.hold_time;
  if (!whole) return;
  ++sent_;
  offers_.erase(offer);
  release_(number);
}

void KvSource::sweep() {
  std::vector<std::uint32_t> gone;
  for (const auto& [number, offer] : offers_)
    if (offer.sendings == 0 && offer.expires <= loop_.now()) gone.push_back(number);
  for (const std::uint32_t number : gone) {
    ++expired_;
    offers_.erase(number);
    release_(number);
  }
}

}  // namespace penstock::engine_server
