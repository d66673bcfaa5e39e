// An API server with the objects of one resource, for tests: on the loop of the client, with faults from a seed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::connect::testing {

// Probabilities: of an answer to a list, or of an event in a watch.
struct ApiFaults {
  double refusal = 0.0;     // 429 with Retry-After, or 500.
  double expired = 0.0;     // A continuation is too old (410).
  double cut = 0.0;         // Anywhere in the bytes.
  double duplicate = 0.0;   // The event comes again, or an older one does.
  double swap = 0.0;        // The event comes after the next one.
  double compaction = 0.0;  // What was before is forgotten, so that watches from there get 410.
};

class TestApiServer final : public net::ExchangeHandler {
 public:
  explicit TestApiServer(net::Loop& loop, std::uint64_t seed = 1) : loop_{loop}, random_{seed} {
    const int listening = *net::listen_on(net::Address{}, false);
    address_ = net::local_address(listening);
    server_ = std::make_unique<net::Server>(loop, listening, *this);
  }

  [[nodiscard]] const net::Address& address() const { return address_; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& objects() const { return objects_; }
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::size_t watches() const { return watches_.size(); }

  ApiFaults faults;
  bool is_silent = false;  // Watches begin, and nothing comes.
  int lists = 0, opened = 0;
  std::vector<std::string> targets;

  void set(const std::string& name) {
    const bool is_new = !objects_.contains(name);
    objects_[name] = ++version_;
    publish({version_, is_new ? "ADDED" : "MODIFIED", name});
  }
  void remove(const std::string& name) {
    if (objects_.erase(name) > 0) publish({++version_, "DELETED", name});
  }
  void bookmark() {
    for (Watch& watch : watches_)
      if (watch.held.empty()) send(watch, line("BOOKMARK", fmt::format(R"("resourceVersion":"{}")", version_)));
  }
  void send_to_all(const std::string& bytes) {
    for (Watch& watch : watches_) send(watch, bytes);
  }
  void compact() { compacted_ = version_; }
  void cut_all() {
    while (!watches_.empty()) cut(watches_.front());
  }
  void end_all() {
    while (!watches_.empty()) {
      watches_.front().exchange->finish();
      watches_.pop_front();
    }
  }
  // Sends what was held back for a swap.
  void flush() {
    for (Watch& watch : watches_)
      if (!watch.held.empty()) send(watch, std::exchange(watch.held, {}));
  }

 private:
  struct Event {
    std::uint64_t version;
    std::string type, name;
  };
  struct Watch final : net::ExchangeListener {
    Watch(TestApiServer& owner, net::Exchange& its_exchange) : server{owner}, exchange{&its_exchange} {
      its_exchange.listen(this);
    }
    void on_writable() override {}
    void on_client_gone() override {
      server.watches_.remove_if([this](const Watch& watch) { return &watch == this; });
    }
    TestApiServer& server;
    net::Exchange* exchange;
    std::string held;
  };

  static std::uint64_t number_in(const std::string& text) {
    std::uint64_t number = 0;
    for (const char c : text) number = number * 10 + static_cast<std::uint64_t>(c - '0');
    return number;
  }
  static std::string metadata(const std::string& name, std::uint64_t version) {
    return fmt::format(R"("name":"{}","namespace":"n","resourceVersion":"{}")", name, version);
  }
  static std::string line(const std::string& type, const std::string& metadata) {
    return fmt::format(R"({{"type":"{}","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{{}}}}}}})"
                       "\n",
                       type, metadata);
  }
  static std::string line(const Event& event) { return line(event.type, metadata(event.name, event.version)); }
  bool happens(double probability) { return random_.uniform() < probability; }

  void publish(const Event& event) {
    log_.push_back(event);
    if (happens(faults.compaction)) compact();
    for (auto watch = watches_.begin(); watch != watches_.end();) deliver(*watch++, event);
  }
  // May end the watch.
  void deliver(Watch& watch, const Event& event) {
    std::string bytes = line(event);
    if (watch.held.empty() && happens(faults.swap)) {
      watch.held = std::move(bytes);
      return;
    }
    // A watch that ends between two swapped events has lost the older one, and no client could know.
    const std::size_t cut_before = watch.held.empty() ? std::string::npos : bytes.size();
    bytes += std::exchange(watch.held, {});
    if (happens(faults.duplicate)) bytes += line(log_[random_.below(log_.size())]);
    if (happens(faults.duplicate)) bytes += line(event);
    if (!happens(faults.cut)) return send(watch, bytes);
    send(watch, bytes.substr(0, random_.below(std::min(cut_before, bytes.size()))));
    cut(watch);
  }
  static void send(Watch& watch, const std::string& bytes) {
    if (!bytes.empty()) watch.exchange->write(bytes);
  }
  void cut(Watch& watch) {
    net::Exchange* const exchange = watch.exchange;
    watches_.remove_if([&](const Watch& each) { return &each == &watch; });
    exchange->listen(nullptr);
    exchange->abort();
  }

  static void respond(net::Exchange& exchange, int status, const std::string& body,
                      std::optional<std::string> retry_after = {}) {
    std::vector<net::Field> fields{{"Content-Type", "application/json"}};
    if (retry_after) fields.push_back({"Retry-After", *retry_after});
    exchange.respond(status, fields, body);
  }

  void on_request(net::Exchange& exchange) override {
    targets.emplace_back(exchange.head().target);
    if (happens(faults.refusal))
      return happens(0.5) ? respond(exchange, 429, R"({"kind":"Status","reason":"TooManyRequests","code":429})", "0")
                          : respond(exchange, 500, R"({"kind":"Status","reason":"InternalError","code":500})");
    exchange.head().parameter("watch") == "1" ? watch(exchange) : list(exchange);
  }
  std::string error_body(int, std::string_view) override { return "{}"; }

  // Each page is of the state at its time, which a snapshot of the names makes simple: the continuation is a name.
  void list(net::Exchange& exchange) {
    const std::string from = exchange.head().decoded_parameter("continue");
    if (from.empty()) {
      ++lists;
      snapshot_ = objects_;
      snapshot_version_ = version_;
    } else if (happens(faults.expired)) {
      return respond(exchange, 410, R"({"kind":"Status","reason":"Expired","code":410})");
    }
    const std::uint64_t limit = number_in(exchange.head().decoded_parameter("limit"));
    std::string items, next;
    std::size_t count = 0;
    for (auto object = snapshot_.lower_bound(from); object != snapshot_.end(); ++object) {
      if (count++ == limit) {
        next = object->first;
        break;
      }
      items +=
          fmt::format(R"({}{{"metadata":{{{}}}}})", items.empty() ? "" : ",", metadata(object->first, object->second));
    }
    const std::string body = fmt::format(
        R"({{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})",
        snapshot_version_, next, items);
    if (!happens(faults.cut)) return respond(exchange, 200, body);
    exchange.start(200, {}, body.size());
    exchange.write(body.substr(0, random_.below(body.size())));
    exchange.abort();
  }

  void watch(net::Exchange& exchange) {
    ++opened;
    const std::uint64_t from = number_in(exchange.head().decoded_parameter("resourceVersion"));
    exchange.start(200, {}, std::nullopt);
    exchange.flush();
    if (from < compacted_) {
      exchange.write(
          fmt::format(R"j({{"type":"ERROR","object":{{"kind":"Status","apiVersion":"v1","metadata":{{}},)j"
                      R"j("status":"Failure","message":"too old resource version: {} ({})","reason":"Expired",)j"
                      R"j("code":410}}}})j"
                      "\n",
                      from, compacted_));
      return exchange.finish();
    }
    Watch& watch = watches_.emplace_back(*this, exchange);
    if (is_silent) return;
    for (const Event& event : log_)
      if (event.version > from) send(watch, line(event));
  }

  net::Loop& loop_;
  core::RandomStream random_;
  net::Address address_;
  std::map<std::string, std::uint64_t> objects_, snapshot_;
  std::vector<Event> log_;
  std::uint64_t version_ = 1, compacted_ = 0, snapshot_version_ = 0;
  std::list<Watch> watches_;
  std::unique_ptr<net::Server> server_;
};

}  // namespace penstock::connect::testing
