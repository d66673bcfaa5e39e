// Replicas, requests and a listener for tests of the dispatcher.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/dispatcher.h"

namespace penstock::dispatch::testing {

struct TestListener final : GrantListener {
  void deliver(Ticket ticket, const Grant& grant) override { grants.emplace(ticket, grant); }
  void deliver(Ticket ticket, const Refusal& refusal) override { refusals.emplace(ticket, refusal); }
  std::map<Ticket, Grant> grants;
  std::map<Ticket, Refusal> refusals;
};

struct TestSink final : LedgerSink {
  explicit TestSink(std::vector<ledger::Entry>& open, std::vector<ledger::Entry>& closed)
      : opened_(open), closed_(closed) {}
  void opened(const ledger::Entry& entry) override { opened_.push_back(entry); }
  void closed(const ledger::Entry& entry) override { closed_.push_back(entry); }
  std::vector<ledger::Entry>&opened_, &closed_;
};

inline ReplicaSpec replica_named(const std::string& id, signals::Role role = signals::Role::kAggregated) {
  ReplicaSpec spec;
  spec.id = id;
  spec.model = "m";
  spec.pool = "default";
  spec.role = role;
  return spec;
}

inline DispatchOptions options_for_tests() {
  DispatchOptions options;
  options.tenants.resize(1);
  options.tenants[0].name = "anonymous";
  options.models = {{"m", {1.0, 0.5, 2.0}, 32'768}};
  options.picker.slow_start = core::Duration{};
  return options;
}

inline RequestInfo info_of(std::size_t text_bytes, std::uint32_t tenant = 0) {
  RequestInfo info;
  info.request_id = "req-1";
  info.model = "m";
  info.route = "/v1/chat/completions";
  info.tenant = tenant;
  info.text_bytes = text_bytes;
  return info;
}

}  // namespace penstock::dispatch::testing
