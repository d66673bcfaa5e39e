// The workers of a Dynamo fleet, found in its discovery: a folder, or etcd.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "connect/dynamo/records.h"
#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::controller {

// Reads the discovery again at an interval. Lives on one loop.
class DynamoDiscovery {
 public:
  static constexpr core::Duration kInterval = std::chrono::seconds{2};

  // "file:/path/of/DYN_FILE_KV" or "etcd:http://host:port"; errors name the form.
  struct Source {
    std::string folder;  // Empty: etcd.
    std::optional<net::Url> etcd;
  };
  [[nodiscard]] static core::Result<Source> parse(const std::string& text);

  // `report` gets why the discovery cannot be read, or why a record is malformed; once until it is another cause.
  DynamoDiscovery(net::Loop& loop, net::Client& client, Source source,
                  std::function<void(const connect::DynamoRecords&)> found,
                  std::function<void(const std::string& cause)> report, core::Duration interval = kInterval);
  ~DynamoDiscovery();
  DynamoDiscovery(const DynamoDiscovery&) = delete;
  DynamoDiscovery& operator=(const DynamoDiscovery&) = delete;

 private:
  void read();
  void resolve();
  void request(std::size_t range);
  void take(core::Result<connect::DynamoRecords> records);

  net::Loop& loop_;
  net::Client& client_;
  const Source source_;
  const std::function<void(const connect::DynamoRecords&)> found_;
  const std::function<void(const std::string&)> report_;
  net::Loop::Timer timer_ = 0;
  net::Resolver resolver_;
  std::optional<net::Address> address_;
  std::size_t addresses_tried_ = 0;
  bool in_flight_ = false;
  connect::DynamoRecords collected_;  // Of the ranges of keys that were read so far.
  std::string reported_;
};

// Adds the keys and values of the answer to a range request of etcd's JSON gateway.
[[nodiscard]] core::Result<void> add_etcd_range(const std::string& answer, connect::DynamoRecords& records);

}  // namespace penstock::controller
