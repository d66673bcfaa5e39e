// Some of the pools of a fleet, as a fleet of their own: one deployment of several that share the fleet.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/fleet.h"

namespace penstock::controller {

// Pools `first`, `first` + 1, … of the whole fleet, which outlives its parts. Events are those of the whole fleet; they
// name their pools.
class FleetPart final : public Fleet {
 public:
  FleetPart(Fleet& whole, std::size_t first) : whole_(whole), first_(first) {}

  [[nodiscard]] bool acts() const override { return whole_.acts(); }
  void set_target(std::size_t pool, std::uint32_t replicas) override { whole_.set_target(first_ + pool, replicas); }
  void set_asleep(std::size_t pool, std::uint32_t replicas) override { whole_.set_asleep(first_ + pool, replicas); }
  void update_gateway(const GatewayState& state, core::Instant at) override { whole_.update_gateway(state, at); }
  void recent_prompts(std::vector<std::uint32_t> input_tokens) override {
    whole_.recent_prompts(std::move(input_tokens));
  }
  void hot_prefixes(std::vector<GatewayPrefix> prefixes) override { whole_.hot_prefixes(std::move(prefixes)); }
  void fill(std::size_t pool, signals::PoolObservation& seen) const override { whole_.fill(first_ + pool, seen); }
  [[nodiscard]] std::uint64_t role_switches(std::size_t pool) const override {
    return whole_.role_switches(first_ + pool);
  }
  [[nodiscard]] std::vector<ReplicaView> replicas(std::size_t pool) const override {
    return whole_.replicas(first_ + pool);
  }
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(
      std::uint32_t replica, std::optional<double> kv_bytes_per_token) const override {
    return whole_.tokens_of(replica, kv_bytes_per_token);
  }
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return whole_.events(); }
  [[nodiscard]] std::string unknown_because() const override { return whole_.unknown_because(); }
  [[nodiscard]] std::optional<report::PodScaling> scaling(std::size_t pool) const override {
    return whole_.scaling(first_ + pool);
  }
  [[nodiscard]] StartUpTimes* start_up_times(std::size_t pool) override { return whole_.start_up_times(first_ + pool); }
  void forget_targets() override { whole_.forget_targets(); }
  [[nodiscard]] std::optional<connect::ObjectReference> target_object(std::size_t pool) const override {
    return whole_.target_object(first_ + pool);
  }
  [[nodiscard]] std::vector<connect::VariantAnnotations> annotations(std::size_t pool) const override {
    return whole_.annotations(first_ + pool);
  }
  [[nodiscard]] std::size_t left_out() const override { return whole_.left_out(); }

 private:
  Fleet& whole_;
  std::size_t first_;
};

}  // namespace penstock::controller
