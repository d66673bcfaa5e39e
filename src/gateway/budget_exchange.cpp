#include "gateway/budget_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "gateway/budget_document.h"

namespace penstock::gateway {
namespace {

constexpr const char* kPath = "/penstock/v1/budgets";
constexpr core::Duration kAnswerTimeout = std::chrono::seconds{2};
constexpr core::Duration kReportAfter = std::chrono::seconds{5};  // Shorter failures are those of restarts.
constexpr std::size_t kAddressesMax = dispatch::PeerBudgets::kPeersMax;

}  // namespace

BudgetExchange::BudgetExchange(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher,
                               logging::Log& log, std::string process)
    : loop_(loop),
      options_(options.peers),
      dispatcher_(dispatcher),
      log_(log),
      started_(net::Loop::read_clock()),
      budgets_(std::move(process), started_),
      client_(loop),
      names_(
          loop, options_.dns_interval, [this](const net::HostChange& change) { take_host(change); }, options_.lookup) {
  set_access(options.admin_access);
  for (const std::string& text : options_.urls) {
    auto url = net::parse_url(text);
    PENSTOCK_ASSERT(url.has_value(), "URLs are checked when they are read");
    urls_.push_back(*std::move(url));
  }
  if (urls_.empty()) return;
  timers_.push_back(loop_.after(core::Duration{}, [this] { list_addresses(); }));
  timers_.push_back(loop_.every(options_.interval, [this] { poll(); }));
}

BudgetExchange::~BudgetExchange() {
  for (const net::Loop::Timer timer : timers_) loop_.cancel(timer);
}

void BudgetExchange::set_access(const net::AccessOptions& access) {
  authorization_ = access.tokens.empty() ? std::string{} : "Bearer " + access.tokens.front();
}

std::string BudgetExchange::document() {
  const core::Instant now = loop_.now();
  dispatch::BudgetReport report = dispatcher_.budget_report(now);
  report.process = budgets_.process();
  report.number = ++reports_;
  report.age = now - started_;
  return budget_document(report);
}

// ---- addresses ------------------------------------------------------------------------------------------------------

void BudgetExchange::take_host(const net::HostChange& change) {
  if (!change.failure.empty())
    log_.write(logging::Event::kHostUnresolved, {{"host", change.host}, {"cause", change.failure}});
  if (!change.addresses.empty())
    log_.write(logging::Event::kHostResolved, {{"host", change.host}, {"addresses", change.addresses}});
  list_addresses();
}

void BudgetExchange::list_addresses() {
  for (const auto& peer : peers_) peer->is_listed = false;
  for (const net::Url& url : urls_) {
    if (const auto numeric = net::Address::parse(url.host, url.port)) {
      list(url, *numeric);
      continue;
    }
    for (const net::Address& address : names_.follow({url.host, url.port}).addresses) list(url, address);
  }
  names_.end_list();
  // A pod that has no address any more has ended.
  for (const auto& peer : peers_)
    if (!peer->is_listed) apply(budgets_.ended(peer->process));
  std::erase_if(peers_, [](const auto& peer) { return !peer->is_listed; });
}

// A new one is read at once: a gateway that starts must learn what is used up.
void BudgetExchange::list(const net::Url& url, const net::Address& address) {
  const auto known =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& peer) { return peer->address == address; });
  if (known != peers_.end()) {
    (*known)->is_listed = true;
    return;
  }
  if (peers_.size() < kAddressesMax) request(peers_.emplace_back(std::make_shared<Peer>(Peer{url, address})));
}

// ---- reports --------------------------------------------------------------------------------------------------------

void BudgetExchange::poll() {
  apply(budgets_.forget_silent(loop_.now()));
  for (const auto& peer : peers_) request(peer);
}

void BudgetExchange::request(const std::shared_ptr<Peer>& peer) {
  if (std::exchange(peer->in_flight, true)) return;
  net::FetchRequest request = net::request_to(peer->url, peer->address, kPath, kAnswerTimeout, options_.tls);
  request.answer_bytes_max = kBudgetDocumentBytesMax;
  if (!authorization_.empty()) request.fields.push_back({"Authorization", authorization_});
  net::fetch(client_, std::move(request),
             [this, asked = std::weak_ptr<Peer>{peer}](const core::Result<net::FetchAnswer>& answer) {
               if (const auto known = asked.lock()) take(*known, answer);
             });
}

void BudgetExchange::take(Peer& peer, const core::Result<net::FetchAnswer>& answer) {
  peer.in_flight = false;
  if (!answer) {
    // Nothing listens there: the gateway has ended.
    if (answer.error().code == core::ErrorCode::kRefused) apply(budgets_.ended(peer.process));
    return fail(peer, answer.error().message());
  }
  if (answer->status != 200) return fail(peer, fmt::format("status {}", answer->status));
  const auto report = read_budget_document(answer->body);
  if (!report) return fail(peer, report.error().message());
  peer.is_self = report->process == budgets_.process();
  peer.failing_since.reset();
  if (std::exchange(peer.is_reported, false))
    log_.write(logging::Event::kGatewayReachable, {{"address", peer.address.text()}});
  if (peer.is_self) return;
  ++figures_.reports_read;
  if (!peer.process.empty() && peer.process != report->process) apply(budgets_.ended(peer.process));
  peer.process = report->process;
  apply(budgets_.take(*report, loop_.now()));
}

void BudgetExchange::fail(Peer& peer, const std::string& cause) {
  ++figures_.reports_failed;
  if (!peer.failing_since) peer.failing_since = loop_.now();
  if (peer.is_reported || loop_.now() - *peer.failing_since < kReportAfter) return;
  peer.is_reported = true;
  log_.write(logging::Event::kGatewayUnreachable, {{"address", peer.address.text()}, {"cause", cause}});
}

// The dispatcher is not locked for nothing.
void BudgetExchange::apply(const dispatch::BudgetChanges& changes) {
  for (const auto& [name, change] : changes.tenants) {
    if (change.charged > 0) figures_.tokens_charged += static_cast<std::uint64_t>(change.charged);
    if (change.charged < 0) figures_.tokens_returned += static_cast<std::uint64_t>(-change.charged);
  }
  if (!changes.empty()) dispatcher_.change_budgets(changes, loop_.now());
}

std::optional<PeerFigures> BudgetExchange::figures() const {
  if (urls_.empty()) return std::nullopt;
  PeerFigures seen = figures_;
  for (const auto& peer : peers_) {
    if (peer->is_self) continue;
    ++(peer->failing_since || peer->process.empty() ? seen.unreachable : seen.reachable);
  }
  if (const core::Instant oldest = budgets_.oldest_report(); oldest != core::kNever)
    seen.oldest_report_age = loop_.now() - oldest;
  return seen;
}

}  // namespace penstock::gateway
