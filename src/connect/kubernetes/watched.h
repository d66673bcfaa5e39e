// The objects of one resource as values that follow the API server.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "connect/kubernetes/reflector.h"

namespace penstock::connect {

// Lives on one loop. What is known stays when the API server cannot be reached; is_stale() tells its age.
template <class T>
class Watched final : private ReflectorListener {
 public:
  struct Listener {
    std::function<void()> changed;                  // After each list, and after events.
    std::function<void(const ApiError&)> failed{};  // Once until it is another cause.
  };
  using Parse = T (*)(const nlohmann::json& object);

  Watched(net::Loop& loop, KubernetesClient& client, ReflectorOptions options, Parse parse, Listener listener = {})
      : loop_(loop),
        parse_(parse),
        listener_(std::move(listener)),
        reflector_(loop, client, std::move(options), *this) {}

  // By "namespace/name". Empty before the first list, which confirmed_at() tells.
  [[nodiscard]] const std::map<std::string, T>& all() const { return objects_; }
  [[nodiscard]] std::optional<core::Instant> confirmed_at() const { return reflector_.confirmed_at(); }
  [[nodiscard]] bool is_stale() const { return reflector_.is_stale(loop_.now()); }
  [[nodiscard]] const ReflectorCounters& counters() const { return reflector_.counters(); }

 private:
  void on_object(const std::string& key, const nlohmann::json& object) override {
    objects_.insert_or_assign(key, parse_(object));
  }
  void on_deleted(const std::string& key) override { objects_.erase(key); }
  void on_settled() override {
    if (listener_.changed) listener_.changed();
  }
  void on_failure(const ApiError& error) override {
    if (listener_.failed) listener_.failed(error);
  }

  net::Loop& loop_;
  const Parse parse_;
  const Listener listener_;
  std::map<std::string, T> objects_;
  Reflector reflector_;
};

}  // namespace penstock::connect
