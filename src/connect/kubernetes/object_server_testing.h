// An API server that keeps single objects, for tests: it creates, replaces and patches them by their resourceVersion.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "connect/kubernetes/client.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::connect::testing {

class ObjectServer final : public net::ExchangeHandler {
 public:
  using Json = nlohmann::json;
  struct Refusal {
    int status = 500;
    std::string reason = "InternalError";
  };

  explicit ObjectServer(net::Loop& loop) {
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    server_ = std::make_unique<net::Server>(loop, listening, *this);
  }

  net::Address address;
  std::map<std::string, Json> objects;  // By path.
  std::vector<std::string> requests;    // "PUT /apis/…"
  // A refusal of a request, which is then not carried out.
  std::function<std::optional<Refusal>(const std::string& method, const std::string& path)> refuses = {};
  bool is_silent = false;      // Nothing is carried out or answered.
  bool loses_answers = false;  // Writes are carried out, and answered by 500.

  [[nodiscard]] std::size_t count(const std::string& start) const {
    std::size_t found = 0;
    for (const std::string& request : requests) found += request.starts_with(start) ? 1 : 0;
    return found;
  }
  void put(const std::string& path, Json object) {
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    objects[path] = std::move(object);
  }

  static KubernetesOptions options_for(const net::Address& address) {
    KubernetesOptions options;
    options.access.server = *net::parse_url("http://" + address.text());
    options.backoff = {std::chrono::milliseconds{2}, std::chrono::milliseconds{10}};
    options.requests_per_s = 1000.0;
    options.burst = 1000;
    return options;
  }

 private:
  void on_request(net::Exchange& exchange) override {
    const std::string method{exchange.head().method}, path{exchange.head().path()};
    requests.push_back(method + " " + path);
    if (is_silent) return;
    if (const auto refusal = refuses ? refuses(method, path) : std::nullopt)
      return answer(exchange, refusal->status, status_of(refusal->status, refusal->reason));
    auto [status, body] = serve(method, path, Json::parse(exchange.body(), nullptr, false));
    if (loses_answers && method != "GET") return answer(exchange, 500, status_of(500, "InternalError"));
    answer(exchange, status, body);
  }
  std::string error_body(int, std::string_view) override { return "{}"; }

  static Json status_of(int code, const std::string& reason) {
    return {{"kind", "Status"}, {"status", "Failure"}, {"reason", reason}, {"message", reason}, {"code", code}};
  }
  static void answer(net::Exchange& exchange, int status, const Json& body) {
    const std::vector<net::Field> fields{{"Content-Type", "application/json"}};
    exchange.respond(status, fields, body.dump());
  }
  std::pair<int, Json> serve(const std::string& method, const std::string& path, const Json& given) {
    if (method == "POST") {
      const std::string made = path + "/" + given["metadata"]["name"].get<std::string>();
      if (objects.contains(made)) return {409, status_of(409, "AlreadyExists")};
      put(made, given);
      return {201, objects[made]};
    }
    const auto found = objects.find(path);
    if (found == objects.end()) return {404, status_of(404, "NotFound")};
    if (method == "GET") return {200, found->second};
    const std::string version = given.value("/metadata/resourceVersion"_json_pointer, std::string{});
    if (!version.empty() && version != found->second["metadata"]["resourceVersion"])
      return {409, status_of(409, "Conflict")};
    Json object = given;
    if (method == "PATCH") {
      object = found->second;
      object.merge_patch(given);
    }
    put(path, std::move(object));
    return {200, objects[path]};
  }

  std::uint64_t version_ = 100;
  std::unique_ptr<net::Server> server_;
};

}  // namespace penstock::connect::testing
