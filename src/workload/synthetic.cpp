#include "workload/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/random.h"
#include "workload/assembly.h"
#include "workload/rate_curve.h"

namespace penstock::workload {
namespace {

// Draws one of `count` choices with weights 1, 1/2, 1/3, ….
class HarmonicDraw {
 public:
  HarmonicDraw(std::uint32_t count, core::RandomStream random) : random_(random) {
    double sum = 0.0;
    for (std::uint32_t rank = 1; rank <= count; ++rank) sums_.push_back(sum += 1.0 / rank);
  }
  [[nodiscard]] std::uint32_t draw() {
    if (sums_.size() <= 1) return 0;
    const auto found = std::upper_bound(sums_.begin(), sums_.end(), random_.uniform() * sums_.back());
    return static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(found - sums_.begin(), std::ssize(sums_) - 1));
  }

 private:
  std::vector<double> sums_;
  core::RandomStream random_;
};

class LengthDraw {
 public:
  LengthDraw(double mean, double cv, std::uint32_t max, core::RandomStream random)
      : median_(mean / std::sqrt(1.0 + cv * cv)), sigma_(std::sqrt(std::log1p(cv * cv))), max_(max), random_(random) {}
  [[nodiscard]] std::uint32_t draw() {
    const double length = sigma_ > 0.0 ? random_.log_normal(median_, sigma_) : median_;
    return static_cast<std::uint32_t>(std::clamp(length + 0.5, 1.0, static_cast<double>(max_)));
  }

 private:
  double median_, sigma_;
  std::uint32_t max_;
  core::RandomStream random_;
};

// Gaps with a mean of one second. The first gap is the rest of a gap at a random time, so that there is no arrival at
// the start and the number of arrivals matches the rate for any CV.
class UnitRenewals {
 public:
  UnitRenewals(double cv, core::RandomStream random) : variance_(cv * cv), random_(random) {}
  [[nodiscard]] double first() {
    if (variance_ == 0.0) return 0.5;
    // The gap that contains a random time is length-biased: a gamma distribution with the next shape.
    return random_.uniform() * random_.gamma(1.0 / variance_ + 1.0, variance_);
  }
  [[nodiscard]] double next() {
    if (variance_ == 0.0) return 1.0;
    return variance_ == 1.0 ? random_.exponential(1.0) : random_.gamma(1.0 / variance_, variance_);
  }

 private:
  double variance_;
  core::RandomStream random_;
};

// State of one user's session.
struct Session {
  Request request;  // Arrival, tenant, session and class of the next turn.
  // Tokens of all earlier turns; before the first turn those of the shared prefix.
  std::uint64_t context_tokens;
  std::vector<std::uint32_t> ids;  // Ids of the blocks that hold them and that a later turn can reuse.
};

class Generator {
 public:
  Generator(const SyntheticSpec& spec, core::RandomStream random)
      : spec_(spec),
        prefix_tokens_(spec.prefix_groups > 0 ? spec.prefix_tokens : 0),
        renewals_(spec.arrival_cv, random.fork("arrivals")),
        expected_(spec.rate, spec.duration),
        input_(unshared_input(spec, random.fork("input"))),
        output_(spec.output.mean, spec.output.cv, spec.output.max, random.fork("output")),
        tenants_(spec.tenants, random.fork("tenants")),
        groups_(spec.prefix_groups, random.fork("groups")),
        pairs_(random.fork("lengths")),
        classes_(random.fork("classes")),
        turns_(random.fork("turns")),
        think_(random.fork("think")),
        next_id_(std::uint64_t{spec.prefix_groups} * (prefix_tokens_ / spec.block_tokens)) {}

  [[nodiscard]] core::Result<Workload> run();

 private:
  // The part of a prompt after the shared prefix. Mean and spread apply to the whole prompt.
  [[nodiscard]] static LengthDraw unshared_input(const SyntheticSpec& spec, core::RandomStream random) {
    const std::uint32_t prefix = spec.prefix_groups > 0 && spec.lengths.empty() ? spec.prefix_tokens : 0;
    const double own = spec.input.mean - prefix;
    return {own, spec.input.cv * spec.input.mean / own, spec.input.max - prefix, random};
  }

  [[nodiscard]] std::optional<core::Instant> next_start();
  [[nodiscard]] Session begin(core::Instant arrival);
  [[nodiscard]] bool emit(Session& session);
  void draw_lengths(Session& session);

  const SyntheticSpec& spec_;
  const std::uint32_t prefix_tokens_;
  Workload out_;
  UnitRenewals renewals_;
  ExpectedArrivals expected_;
  LengthDraw input_, output_;
  HarmonicDraw tenants_, groups_;
  core::RandomStream pairs_, classes_, turns_, think_;
  double renewed_ = -1.0;  // Sum of the gaps so far; negative before the first.
  std::uint64_t next_id_;
  std::uint32_t next_session_ = 0;
};

std::optional<core::Instant> Generator::next_start() {
  renewed_ = renewed_ < 0.0 ? renewals_.first() : renewed_ + renewals_.next();
  const auto time_s = expected_.time_s_of(renewed_ * spec_.turns);
  if (!time_s) return std::nullopt;
  const core::Duration time = core::from_seconds(*time_s);
  return time < spec_.duration ? std::optional{core::kStart + time} : std::nullopt;
}

Session Generator::begin(core::Instant arrival) {
  Session session{{}, prefix_tokens_, {}};
  session.request.arrival = arrival;
  session.request.tenant = tenants_.draw();
  if (spec_.batch_share > 0.0 && classes_.uniform() < spec_.batch_share)
    session.request.traffic_class = TrafficClass::kBatch;
  if (spec_.turns > 1.0) session.request.session = next_session_++;
  // Only whole blocks, because the block in which the prefix ends differs between requests.
  const std::uint32_t blocks = prefix_tokens_ / spec_.block_tokens;
  const std::uint32_t group = groups_.draw();
  for (std::uint32_t block = 0; block < blocks; ++block) session.ids.push_back(group * blocks + block);
  return session;
}

void Generator::draw_lengths(Session& session) {
  const std::uint32_t room = spec_.input.max - static_cast<std::uint32_t>(session.context_tokens);
  std::uint32_t own = 0;
  if (spec_.lengths.empty()) {
    own = input_.draw();
    session.request.output_tokens = output_.draw();
  } else {
    const LengthPair& pair = spec_.lengths[pairs_.below(spec_.lengths.size())];
    own = pair.input_tokens > prefix_tokens_ ? pair.input_tokens - prefix_tokens_ : 1;
    session.request.output_tokens = std::clamp(pair.output_tokens, 1U, spec_.output.max);
  }
  session.request.input_tokens = static_cast<std::uint32_t>(session.context_tokens) + std::min(own, room);
}

// Writes the session's next turn. Returns true if another turn follows.
bool Generator::emit(Session& session) {
  draw_lengths(session);
  session.context_tokens = std::uint64_t{session.request.input_tokens} + session.request.output_tokens;
  const bool goes_on =
      spec_.turns > 1.0 && turns_.uniform() >= 1.0 / spec_.turns && session.context_tokens < spec_.input.max;
  if (goes_on) {
    // The block in which the output ends keeps its id: the next turn fills it, and in smaller blocks part of it is
    // identical already.
    const std::uint64_t blocks = blocks_for(session.context_tokens, spec_.block_tokens);
    while (session.ids.size() < blocks) session.ids.push_back(static_cast<std::uint32_t>(next_id_++));
  }
  append(out_, session.request, session.ids, 0);
  return goes_on;
}

core::Result<Workload> Generator::run() {
  out_.name = spec_.name;
  out_.block_tokens = spec_.block_tokens;
  if (spec_.tenants > 1) {
    out_.tenants.clear();
    for (std::uint32_t tenant = 1; tenant <= spec_.tenants; ++tenant)
      out_.tenants.push_back(fmt::format("tenant-{}", tenant));
  }
  const std::uint64_t wanted = spec_.requests_max > 0 ? spec_.requests_max : kRequestsMax;
  out_.requests.reserve(std::min<std::uint64_t>(wanted, static_cast<std::uint64_t>(expected_.all() * 1.01) + 100));

  // Turns ordered by time, then by session.
  const auto later = [](const Session& a, const Session& b) {
    return a.request.arrival != b.request.arrival ? a.request.arrival > b.request.arrival
                                                  : a.request.session > b.request.session;
  };
  std::vector<Session> waiting;  // A heap with the earliest turn first.
  auto start = next_start();
  while (out_.requests.size() < wanted && (start || !waiting.empty())) {
    Session session;
    if (!waiting.empty() && (!start || waiting.front().request.arrival <= *start)) {
      std::pop_heap(waiting.begin(), waiting.end(), later);
      session = std::move(waiting.back());
      waiting.pop_back();
    } else {
      session = begin(*start);
      start = next_start();
    }
    if (emit(session)) {
      session.request.arrival += core::from_seconds(think_.exponential(core::to_seconds(spec_.think_time)));
      if (session.request.arrival.time_since_epoch() < spec_.duration) {
        waiting.push_back(std::move(session));
        std::push_heap(waiting.begin(), waiting.end(), later);
      }
    }
    // Upper bound after one more turn.
    const std::uint64_t blocks_max = out_.block_ids.size() + spec_.input.max + spec_.output.max;
    const auto fits = check_size(spec_.name, out_.requests.size(), blocks_max, next_id_, next_session_);
    if (!fits) return tl::make_unexpected(fits.error());
  }
  if (out_.requests.empty())
    return core::invalid_input(spec_.name, "no request arrives within its duration", "raise rate or duration");
  return std::move(out_);
}

}  // namespace

core::Result<Workload> make_synthetic(const SyntheticSpec& spec, std::uint64_t seed) {
  const auto sound = check(spec);
  if (!sound) return tl::make_unexpected(sound.error());
  return Generator{spec, core::RandomStream{seed}.fork("synthetic")}.run();
}

}  // namespace penstock::workload
