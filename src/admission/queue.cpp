#include "admission/queue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <tsl/robin_map.h>

#include "core/result.h"
#include "core/traffic_class.h"

namespace penstock::admission {
namespace {

constexpr std::size_t kClasses = 2;

struct Queued {
  Waiting request;
  Queued *older = nullptr, *newer = nullptr;  // Neighbours among all queued requests, by age.
};

// The requests of one tenant in one class and tier, in order of arrival.
struct Flow {
  std::list<Queued> waiting;
  double start = 0.0;        // Start tag of the first request, or the lower bound of the next one's.
  std::uint64_t serial = 0;  // Breaks ties between equal tags by arrival.
};

struct Head {
  std::int32_t tier = 0;
  double start = 0.0;
  std::uint64_t serial = 0;
  Flow* flow = nullptr;  // Not part of the ordering.
  bool operator<(const Head& other) const {
    return std::tuple{-std::int64_t{tier}, start, serial} <
           std::tuple{-std::int64_t{other.tier}, other.start, other.serial};
  }
};

struct Level {  // A tier of a class.
  double virtual_time = 0.0;
  double finish_max = 0.0;
  std::size_t waiting_tenants = 0;
};

struct Line {  // A class.
  std::set<Head> heads;
  std::map<std::int32_t, Level> levels;
  // Keyed by tier and tenant. Empty flows are kept.
  std::map<std::pair<std::int32_t, std::uint32_t>, Flow> flows;
  std::size_t size = 0;
  std::uint64_t tokens = 0;
};

struct Tenant {
  double weight = 1.0;
  std::uint32_t waiting = 0;
};

using Deadline = std::pair<core::Instant, std::uint64_t>;  // The deadline of a ticket.

bool is_older(const Waiting& a, const Waiting& b) { return std::tie(a.since, a.ticket) < std::tie(b.since, b.ticket); }

}  // namespace

const char* to_string(Class traffic_class) { return core::class_name(traffic_class == Class::kBatch); }

struct FairQueue::State {
  QueueLimits limits;
  std::uint32_t batch_turn = 8;

  std::array<Line, kClasses> lines;
  tsl::robin_map<std::uint32_t, Tenant> tenants;
  tsl::robin_map<std::uint64_t, std::list<Queued>::iterator> tickets;
  Queued *oldest = nullptr, *newest = nullptr;
  // A heap. It keeps requests that have left until they come to its top, which always waits.
  std::vector<Deadline> deadlines;
  std::uint64_t serials = 0;
  std::uint32_t turns_since_batch = 0;  // Counted while batch requests wait.

  // Position at which head_at stopped.
  struct Cursor {
    std::size_t index = 0;
    std::size_t step = 0;  // 0 is the class whose turn it is, 1 is the other class.
    std::set<Head>::iterator at;
    bool valid = false;
  } cursor;

  [[nodiscard]] std::size_t class_at(std::size_t step) const {
    const bool batch_first = turns_since_batch + 1 >= batch_turn && lines[1].size > 0;
    return batch_first ? 1 - step : step;
  }
  void skip_ends() {
    while (cursor.step < kClasses && cursor.at == lines[class_at(cursor.step)].heads.end())
      if (++cursor.step < kClasses) cursor.at = lines[class_at(cursor.step)].heads.begin();
  }
  void seek(std::size_t index) {
    if (!cursor.valid || cursor.index > index) {
      cursor = {0, 0, lines[class_at(0)].heads.begin(), true};
      skip_ends();
    }
    for (; cursor.index < index && cursor.step < kClasses; ++cursor.index) {
      ++cursor.at;
      skip_ends();
    }
  }

  [[nodiscard]] static Head head_of(std::int32_t tier, Flow& flow) { return {tier, flow.start, flow.serial, &flow}; }

  // Times do not go back, so that the newest request is nearly always the right neighbour.
  void link(Queued& added) {
    added.older = newest;
    while (added.older != nullptr && is_older(added.request, added.older->request)) added.older = added.older->older;
    added.newer = added.older != nullptr ? added.older->newer : oldest;
    (added.older != nullptr ? added.older->newer : oldest) = &added;
    (added.newer != nullptr ? added.newer->older : newest) = &added;
  }
  void add_deadline(const Waiting& waiting) {
    if (waiting.deadline == core::kNever) return;
    deadlines.emplace_back(waiting.deadline, waiting.ticket);
    std::push_heap(deadlines.begin(), deadlines.end(), std::greater<>{});
  }
  void forget_deadlines() {
    const auto has_left = [&](const Deadline& deadline) { return !tickets.contains(deadline.second); };
    constexpr std::size_t kLeftMax = 64;
    if (deadlines.size() > 2 * tickets.size() + kLeftMax) {
      std::erase_if(deadlines, has_left);
      std::make_heap(deadlines.begin(), deadlines.end(), std::greater<>{});
    }
    while (!deadlines.empty() && has_left(deadlines.front())) {
      std::pop_heap(deadlines.begin(), deadlines.end(), std::greater<>{});
      deadlines.pop_back();
    }
  }

  // Removes one request from all structures except the set of heads.
  Waiting unlink(Line& line, Flow& flow, std::list<Queued>::iterator at) {
    const Waiting gone = at->request;
    (at->older != nullptr ? at->older->newer : oldest) = at->newer;
    (at->newer != nullptr ? at->newer->older : newest) = at->older;
    flow.waiting.erase(at);
    tickets.erase(gone.ticket);
    forget_deadlines();
    --line.size;
    line.tokens -= gone.tokens;
    --tenants[gone.tenant].waiting;
    cursor.valid = false;
    return gone;
  }

  void after_removal(Line& line, std::int32_t tier, Flow& flow) {
    if (!flow.waiting.empty()) {
      line.heads.insert(head_of(tier, flow));
      return;
    }
    Level& level = line.levels[tier];
    // The level is empty: later requests owe nothing for tokens that were admitted before.
    if (--level.waiting_tenants == 0) level.virtual_time = std::max(level.virtual_time, level.finish_max);
    if (&line == &lines[1] && line.size == 0) turns_since_batch = 0;
  }

  Waiting remove(std::list<Queued>::iterator at) {
    Line& line = lines[index_of(line_of(at->request))];
    const std::int32_t tier = at->request.tier;
    Flow& flow = line.flows.find({tier, at->request.tenant})->second;
    line.heads.erase(head_of(tier, flow));
    const Waiting gone = unlink(line, flow, at);
    after_removal(line, tier, flow);
    return gone;
  }

  // Flows of the same tier that were skipped keep their position at the front, but earn no credit for the time that
  // they could not use.
  static void forget_credit(Line& line, std::int32_t tier, double start, std::set<Head>::iterator end) {
    auto at = line.heads.lower_bound({tier, -1.0, 0, nullptr});
    while (at != end && at->start < start) {
      const auto passed = at++;
      auto node = line.heads.extract(passed);
      node.value().start = start;
      node.value().flow->start = start;
      line.heads.insert(std::move(node));
    }
  }

  Waiting serve(std::size_t class_index, std::set<Head>::iterator at) {
    Line& line = lines[class_index];
    Flow& flow = *at->flow;
    const std::int32_t tier = at->tier;
    Level& level = line.levels[tier];
    forget_credit(line, tier, flow.start, at);
    line.heads.erase(at);
    level.virtual_time = std::max(level.virtual_time, flow.start);
    const Waiting taken = unlink(line, flow, flow.waiting.begin());
    flow.start += static_cast<double>(taken.tokens) / tenants[taken.tenant].weight;
    level.finish_max = std::max(level.finish_max, flow.start);
    if (class_index == 1) {
      turns_since_batch = 0;
    } else if (lines[1].size > 0) {
      ++turns_since_batch;
    }
    after_removal(line, tier, flow);
    return taken;
  }
};

FairQueue::FairQueue(const QueueLimits& limits, std::uint32_t batch_turn) : state_(std::make_unique<State>()) {
  PENSTOCK_ASSERT(batch_turn > 0, "batch has one in so many turns");
  state_->limits = limits;
  state_->batch_turn = batch_turn;
}
FairQueue::~FairQueue() = default;
FairQueue::FairQueue(FairQueue&&) noexcept = default;
FairQueue& FairQueue::operator=(FairQueue&&) noexcept = default;

void FairQueue::set_weight(std::uint32_t tenant, double weight) {
  PENSTOCK_ASSERT(weight > 0.0 && std::isfinite(weight), "weights are checked where they are read");
  state_->tenants[tenant].weight = weight;
}

bool FairQueue::push(const Waiting& waiting) {
  State& state = *state_;
  PENSTOCK_ASSERT(!state.tickets.contains(waiting.ticket), "a ticket waits once");
  Line& line = state.lines[index_of(line_of(waiting))];
  Tenant& tenant = state.tenants[waiting.tenant];
  const bool full = line.size >= state.limits.requests || tenant.waiting >= state.limits.requests_per_tenant ||
                    waiting.tokens > state.limits.tokens || line.tokens > state.limits.tokens - waiting.tokens;
  if (full && !waiting.due) return false;

  Flow& flow = line.flows[{waiting.tier, waiting.tenant}];
  if (flow.waiting.empty()) {
    Level& level = line.levels[waiting.tier];
    ++level.waiting_tenants;
    flow.start = std::max(flow.start, level.virtual_time);
    flow.serial = state.serials++;
    line.heads.insert(State::head_of(waiting.tier, flow));
  }
  flow.waiting.push_back({waiting});
  state.tickets.emplace(waiting.ticket, std::prev(flow.waiting.end()));
  state.link(flow.waiting.back());
  state.add_deadline(waiting);
  ++line.size;
  line.tokens += waiting.tokens;
  ++tenant.waiting;
  state.cursor.valid = false;
  return true;
}

const Waiting* FairQueue::head_at(std::size_t index) {
  state_->seek(index);
  return state_->cursor.step < kClasses ? &state_->cursor.at->flow->waiting.front().request : nullptr;
}

Waiting FairQueue::take(std::size_t index) {
  state_->seek(index);
  PENSTOCK_ASSERT(state_->cursor.step < kClasses, "a visited head is taken");
  return state_->serve(state_->class_at(state_->cursor.step), state_->cursor.at);
}

bool FairQueue::remove(std::uint64_t ticket) {
  const auto found = state_->tickets.find(ticket);
  if (found == state_->tickets.end()) return false;
  static_cast<void>(state_->remove(found->second));
  return true;
}

std::vector<Waiting> FairQueue::expired(core::Instant now) {
  std::vector<Waiting> gone;
  while (!state_->deadlines.empty() && state_->deadlines.front().first <= now)
    gone.push_back(state_->remove(state_->tickets.find(state_->deadlines.front().second)->second));
  return gone;
}

core::Instant FairQueue::next_deadline() const {
  return state_->deadlines.empty() ? core::kNever : state_->deadlines.front().first;
}

std::size_t FairQueue::size() const { return state_->tickets.size(); }
std::size_t FairQueue::size(Class traffic_class) const { return state_->lines[index_of(traffic_class)].size; }
std::uint64_t FairQueue::tokens() const { return state_->lines[0].tokens + state_->lines[1].tokens; }
std::uint64_t FairQueue::tokens(Class traffic_class) const { return state_->lines[index_of(traffic_class)].tokens; }
std::vector<Waiting> FairQueue::by_age() const {
  std::vector<Waiting> all;
  all.reserve(size());
  for (const Queued* each = state_->oldest; each != nullptr; each = each->newer) all.push_back(each->request);
  return all;
}

core::Instant FairQueue::oldest() const {
  return state_->oldest == nullptr ? core::kNever : state_->oldest->request.since;
}

}  // namespace penstock::admission
