#include "controller/gateway_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::controller {
namespace {

constexpr std::uint32_t kPollsPerProbe = 10;
constexpr std::size_t kAddressesMax = 128;
constexpr std::size_t kFailuresShown = 3;

std::string text_of(const net::HostNames::Host& host) { return fmt::format("{}:{}", host.first, host.second); }

}  // namespace

GatewaySet::GatewaySet(net::Loop& loop, net::Client& client, GatewaySetOptions options, FleetEvents& events,
                       Callbacks callbacks)
    : loop_(loop),
      client_(client),
      options_(std::move(options)),
      events_(events),
      callbacks_(std::move(callbacks)),
      names_(
          loop, options_.dns_interval, [this](const net::HostChange& change) { take_host(change); }, options_.lookup) {
  list_addresses();
  timers_.push_back(loop_.every(options_.interval, [this] { poll(); }));
  if (!callbacks_.prefixes) return;
  const auto request_prefixes = [this] {
    for (Member& member : members_)
      if (!member.has_left) member.gateway->request_prefixes();
  };
  timers_.push_back(loop_.after(core::Duration{}, request_prefixes));
  timers_.push_back(loop_.every(options_.prefix_interval, request_prefixes));
}

GatewaySet::~GatewaySet() {
  for (const net::Loop::Timer timer : timers_) loop_.cancel(timer);
}

// ---- addresses ------------------------------------------------------------------------------------------------------

void GatewaySet::take_host(const net::HostChange& change) {
  if (!change.failure.empty())
    events_.log().write(logging::Event::kHostUnresolved, {{"host", change.host}, {"cause", change.failure}});
  if (!change.addresses.empty())
    events_.log().write(logging::Event::kHostResolved, {{"host", change.host}, {"addresses", change.addresses}});
  list_addresses();
  callbacks_.answered();
}

void GatewaySet::list_addresses() {
  for (Member& member : members_) member.is_listed = false;
  has_unknown_names_ = has_too_many_ = false;
  unresolved_.clear();
  for (const net::HostNames::Host& host : options_.hosts) {
    if (const auto numeric = net::Address::parse(host.first, host.second)) {
      list(*numeric, host.first, true);
      continue;
    }
    const net::HostNames::Entry& entry = names_.follow(host);
    has_unknown_names_ = has_unknown_names_ || !entry.looked_up;
    if (entry.addresses.empty() && entry.looked_up) unresolved_.push_back(entry.failure);
    for (const net::Address& address : entry.addresses) list(address, host.first, entry.addresses.size() == 1);
  }
  names_.end_list();
}

void GatewaySet::list(const net::Address& address, const std::string& host, bool is_alone) {
  auto known = std::find_if(members_.begin(), members_.end(),
                            [&](const Member& each) { return each.gateway->address() == address; });
  if (known == members_.end()) {
    has_too_many_ = has_too_many_ || members_.size() >= kAddressesMax;
    if (has_too_many_) return;
    known = members_.insert(members_.end(), Member{});
    known->gateway = std::make_unique<GatewayObservation>(loop_, client_, options_.access, cursors_, address, host,
                                                          static_cast<GatewayObservation::Listener&>(*this));
    if (was_complete_) known->joined_at = loop_.now();
  }
  // Of several names of an address the first one counts, until that one loses the address.
  if (!std::exchange(known->is_listed, true)) known->gateway->set_host(host);
  known->is_alone = is_alone;
}

// ---- who counts -----------------------------------------------------------------------------------------------------

bool GatewaySet::is_leaving(const Member& member) {
  return !member.is_listed || (member.gateway->state() && member.gateway->state()->draining);
}

// Nothing listens at the address: there is no gateway, or not yet.
bool GatewaySet::is_starting(const Member& member) { return !member.gateway->state() && member.gateway->refuses(); }

bool GatewaySet::has_ended(const Member& member) const {
  const GatewayObservation& gateway = *member.gateway;
  if (!is_leaving(member)) return false;
  if (!gateway.state()) return true;
  // Without another gateway, the one that drains restarts.
  const bool has_others = std::any_of(members_.begin(), members_.end(), [&](const Member& each) {
    return !is_leaving(each) && each.gateway->state() && each.gateway->read_at();
  });
  if (member.is_listed && !has_others) return false;
  if (loop_.now() > gateway.read_at().value_or(core::kStart) + options_.timeout) return true;
  // While it drains, it may still take requests.
  return gateway.is_drained() && (!member.is_listed || !gateway.is_up());
}

// Each gateway once, by the address at which it was read last.
std::vector<const GatewayObservation*> GatewaySet::counted() const {
  std::vector<const GatewayObservation*> made;
  for (const Member& member : members_) {
    const GatewayObservation* gateway = member.gateway.get();
    if (member.has_left || !gateway->state()) continue;
    const auto same = std::find_if(made.begin(), made.end(), [&](const GatewayObservation* each) {
      return each->state()->boot == gateway->state()->boot;
    });
    if (same == made.end())
      made.push_back(gateway);
    else if ((*same)->read_at() < gateway->read_at())
      *same = gateway;
  }
  return made;
}

// Its gateway counts by another address.
bool GatewaySet::is_known_elsewhere(const Member& member, const std::vector<const GatewayObservation*>& counted) {
  return member.gateway->state() && std::find(counted.begin(), counted.end(), member.gateway.get()) == counted.end();
}

bool GatewaySet::is_complete() const {
  if (has_unknown_names_ || has_too_many_ || !unresolved_.empty()) return false;
  const bool any = std::any_of(members_.begin(), members_.end(),
                               [](const Member& each) { return !each.has_left && each.gateway->state().has_value(); });
  return any && std::all_of(members_.begin(), members_.end(), [](const Member& each) {
           return each.has_left || each.gateway->state() || is_starting(each);
         });
}

std::optional<core::Instant> GatewaySet::read_at() const {
  if (has_unknown_names_ || has_too_many_ || !unresolved_.empty()) return std::nullopt;
  const auto all = counted();
  std::optional<core::Instant> oldest, leaving;
  for (const Member& member : members_) {
    if (member.has_left || is_starting(member)) continue;
    if (is_known_elsewhere(member, all)) continue;
    auto read = member.gateway->read_at();
    if (!read) read = member.joined_at;
    if (!read) return std::nullopt;
    std::optional<core::Instant>& of = is_leaving(member) ? leaving : oldest;
    of = std::min(*read, of.value_or(*read));
  }
  return oldest ? oldest : leaving;
}

bool GatewaySet::is_awaited() const {
  if (was_complete_) return false;
  return has_unknown_names_ || std::any_of(members_.begin(), members_.end(), [](const Member& each) {
           return each.is_listed && each.gateway->is_awaited();
         });
}

bool GatewaySet::is_up() const {
  if (has_unknown_names_ || has_too_many_ || !unresolved_.empty()) return false;
  const auto all = counted();
  std::optional<bool> up, leaving;
  for (const Member& member : members_) {
    if (member.has_left || is_starting(member) || is_known_elsewhere(member, all)) continue;
    std::optional<bool>& of = is_leaving(member) ? leaving : up;
    of = of.value_or(true) && member.gateway->is_up();
  }
  return up ? *up : leaving.value_or(false);
}

std::string GatewaySet::failure() const {
  std::vector<std::string> failures = unresolved_;
  if (has_too_many_) failures.push_back(fmt::format("there are more than {} addresses", kAddressesMax));
  const bool has_sources = !counted().empty();
  for (const Member& member : members_)
    if (!member.has_left && !(is_starting(member) && has_sources) && !member.gateway->failure().empty())
      failures.push_back(member.gateway->address().text() + ": " + member.gateway->failure());
  if (failures.empty())
    for (const net::HostNames::Host& host : options_.hosts) failures.push_back(text_of(host));
  const std::size_t more = failures.size() - std::min(failures.size(), kFailuresShown);
  failures.resize(failures.size() - more);
  return fmt::format("{}{}", fmt::join(failures, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

std::vector<GatewaySet::View> GatewaySet::gateways() const {
  const auto all = counted();
  std::vector<View> views;
  for (const Member& member : members_)
    if (!member.has_left && !is_starting(member) && !is_known_elsewhere(member, all))
      views.push_back({member.gateway->address().text(), member.gateway->is_up()});
  return views;
}

std::vector<const std::string*> GatewaySet::documents() const {
  std::vector<const std::string*> made;
  for (const GatewayObservation* gateway : counted()) made.push_back(&gateway->state()->json);
  return made;
}

// ---- answers --------------------------------------------------------------------------------------------------------

void GatewaySet::poll() {
  follow_members();
  const bool probes = ++polls_ % kPollsPerProbe == 0;
  for (Member& member : members_) {
    if (member.has_left && !member.is_listed) continue;
    member.gateway->poll();
    if (probes && member.is_alone) member.gateway->probe();
  }
}

// Ends what has left, and takes back a gateway that answers again.
void GatewaySet::follow_members() {
  for (Member& member : members_) {
    const bool has_left = has_ended(member);
    if (std::exchange(member.has_left, has_left) == has_left) continue;
    has_news_ = true;
    if (has_left && member.gateway->state())
      events_.log().write(logging::Event::kGatewayLeft,
                          {{"address", member.gateway->address().text()},
                           {"cause", member.gateway->is_drained() ? "nothing is open there" : "it does not answer"}});
  }
  std::erase_if(members_, [](const Member& each) { return each.has_left && !each.is_listed; });
}

// The last answer of a round stands for all of it.
void GatewaySet::overview_read(bool good) {
  has_news_ = has_news_ || good;
  if (std::none_of(members_.begin(), members_.end(), [](const Member& each) { return each.gateway->reads_overview(); }))
    publish();
}

void GatewaySet::publish() {
  if (has_news_ && is_complete()) {
    has_news_ = false;
    std::vector<const GatewayState*> states;
    core::Instant at = core::kNever;
    for (const GatewayObservation* gateway : counted()) {
      states.push_back(&*gateway->state());
      totals_.take(*states.back());
      at = std::min(at, gateway->requested_at());
    }
    state_ = sum_of(states);
    totals_.put_into(*state_);
    callbacks_.state(*state_, at);
  }
  was_complete_ = was_complete_ || read_at().has_value();
  callbacks_.answered();
}

void GatewaySet::prefixes_read() {
  const auto all = counted();
  std::vector<const std::vector<GatewayPrefix>*> prefixes;
  for (const Member& member : members_)
    if (!member.has_left && !member.gateway->prefixes().empty() && !is_known_elsewhere(member, all))
      prefixes.push_back(&member.gateway->prefixes());
  callbacks_.prefixes(prefixes.empty() ? std::vector<GatewayPrefix>{} : sum_of(prefixes));
}

void GatewaySet::reachable_changed(const GatewayObservation& gateway) {
  const auto member = std::find_if(members_.begin(), members_.end(),
                                   [&](const Member& each) { return each.gateway.get() == &gateway; });
  if (member == members_.end() || has_ended(*member)) return;
  if (is_starting(*member) && !counted().empty()) return;
  const std::string address = gateway.address().text();
  if (gateway.is_up())
    events_.log().write(logging::Event::kGatewayReachable, {{"address", address}});
  else
    events_.log().write(logging::Event::kGatewayUnreachable, {{"address", address}, {"cause", gateway.failure()}});
}

void GatewaySet::several_answered(const GatewayObservation& gateway) {
  const std::string address = gateway.address().text();
  events_.log().write(logging::Event::kSeveralGateways, {{"address", address}});
  events_.add(
      loop_.now(), true, {},
      fmt::format("several gateways answer at {}; the traffic of those that are not reached is unknown", address));
}

}  // namespace penstock::controller
