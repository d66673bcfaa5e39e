#include "controller/dynamo_discovery.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "net/base64.h"
#include "net/fetch.h"

namespace penstock::controller {
namespace {

constexpr core::Duration kDiscoveryTimeout = std::chrono::seconds{2};
// The keys from "v1/mdc/" to "v1/mdc0" and from "v1/event_channels/" to "v1/event_channels0", in base64.
constexpr std::array<std::string_view, 2> kRanges = {
    R"({"key":"djEvbWRjLw==","range_end":"djEvbWRjMA==","limit":10000})",
    R"({"key":"djEvZXZlbnRfY2hhbm5lbHMv","range_end":"djEvZXZlbnRfY2hhbm5lbHMw","limit":10000})"};
constexpr std::string_view kDiscovery = "Dynamo's discovery";

std::string decoded(const nlohmann::json& pair, const char* name) {
  if (!pair.is_object() || !pair.contains(name) || !pair.at(name).is_string()) return {};
  return net::decode_base64(pair.at(name).get_ref<const std::string&>());
}

}  // namespace

core::Result<DynamoDiscovery::Source> DynamoDiscovery::parse(const std::string& text) {
  constexpr std::string_view kFile = "file:", kEtcd = "etcd:";
  if (text.starts_with(kFile) && text.size() > kFile.size()) return Source{text.substr(kFile.size()), std::nullopt};
  const auto url = text.starts_with(kEtcd) ? net::parse_url(text.substr(kEtcd.size()))
                                           : core::Result<net::Url>{core::invalid_input({}, {})};
  if (!url || url->tls)
    return core::invalid_input({}, "must be like file:/path or etcd:http://127.0.0.1:2379, is \"" + text + "\"");
  return Source{{}, *url};
}

core::Result<void> add_etcd_range(const std::string& answer, connect::DynamoRecords& records) {
  const auto read = nlohmann::json::parse(answer, nullptr, false);
  if (!read.is_object())
    return core::environment_error(std::string{kDiscovery}, "etcd's response is not a JSON object");
  if (!read.contains("kvs")) return {};  // There are no such keys.
  if (!read.at("kvs").is_array()) return core::environment_error(std::string{kDiscovery}, "etcd's response lacks kvs");
  for (const nlohmann::json& pair : read.at("kvs"))
    connect::add_dynamo_record(decoded(pair, "key"), decoded(pair, "value"), records);
  return {};
}

DynamoDiscovery::DynamoDiscovery(net::Loop& loop, net::Client& client, Source source,
                                 std::function<void(const connect::DynamoRecords&)> found,
                                 std::function<void(const std::string&)> report, core::Duration interval)
    : loop_(loop),
      client_(client),
      source_(std::move(source)),
      found_(std::move(found)),
      report_(std::move(report)),
      resolver_(loop, net::Address::resolve) {
  timer_ = loop_.every(interval, [this] { read(); });
}

DynamoDiscovery::~DynamoDiscovery() { loop_.cancel(timer_); }

void DynamoDiscovery::read() {
  if (!source_.etcd) return take(connect::read_dynamo_folder(source_.folder));
  if (std::exchange(in_flight_, true)) return;
  collected_ = {};
  if (address_) return request(0);
  resolve();
}

void DynamoDiscovery::resolve() {
  resolver_.resolve(source_.etcd->host, source_.etcd->port, [this](const net::Resolver::Addresses& addresses) {
    if (!addresses) return take(tl::make_unexpected(addresses.error()));
    // After a failure the next address has its turn.
    address_ = (*addresses)[addresses_tried_++ % addresses->size()];
    request(0);
  });
}

void DynamoDiscovery::request(std::size_t range) {
  if (range == kRanges.size()) return take(std::move(collected_));
  net::FetchRequest request = net::request_to(*source_.etcd, *address_, "/v3/kv/range", kDiscoveryTimeout);
  request.method = "POST";
  request.fields.push_back({"Content-Type", "application/json"});
  request.body = kRanges[range];
  net::fetch(client_, std::move(request), [this, range](const core::Result<net::FetchAnswer>& answer) {
    if (!answer) {
      address_.reset();
      return take(tl::make_unexpected(answer.error()));
    }
    if (answer->status != 200)
      return take(core::environment_error(std::string{kDiscovery},
                                          "etcd responds with status " + std::to_string(answer->status)));
    if (const auto added = add_etcd_range(answer->body, collected_); !added)
      return take(tl::make_unexpected(added.error()));
    this->request(range + 1);
  });
}

void DynamoDiscovery::take(core::Result<connect::DynamoRecords> records) {
  in_flight_ = false;
  const std::string cause = records ? records->rejection : records.error().message();
  if (std::exchange(reported_, cause) != cause && !cause.empty()) report_(cause);
  if (records) found_(*records);
}

}  // namespace penstock::controller
