// Follows the pods of a namespace and scales Deployments there, for kubernetes_test.py:
//   kubernetes_client KUBECONFIG NAMESPACE BOOKMARK_SECONDS WATCH_SECONDS
// Standard output has one JSON document a line. Commands come by standard input: "get NAME", "scale NAME REPLICAS",
// "scale NAME REPLICAS VERSION" and "state".
#include <sys/epoll.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "connect/kubernetes/access.h"
#include "connect/kubernetes/client.h"
#include "connect/kubernetes/json_values.h"
#include "connect/kubernetes/watched.h"
#include "net/signals.h"

namespace {

using namespace penstock;
using Json = nlohmann::json;

std::string phase_of(const Json& pod) {
  if (!connect::json_text(connect::json_part(pod, "metadata"), "deletionTimestamp").empty()) return "Terminating";
  const Json& conditions = connect::json_part(connect::json_part(pod, "status"), "conditions");
  for (const Json& condition : conditions)
    if (connect::json_text(condition, "type") == "Ready" && connect::json_text(condition, "status") == "True")
      return "Ready";
  return connect::json_text(connect::json_part(pod, "status"), "phase");
}

void write(const Json& document) { std::cout << document.dump() << std::endl; }

class Program final : public net::Watcher {
 public:
  Program(net::Loop& loop, connect::KubernetesClient& client, std::string in_namespace, core::Duration bookmarks,
          core::Duration watch_time)
      : loop_{loop}, client_{client}, namespace_{std::move(in_namespace)} {
    connect::ReflectorOptions options;
    options.resource = connect::kPods;
    options.in_namespace = namespace_;
    options.bookmark_interval = bookmarks;
    options.watch_time = watch_time;
    pods_.emplace(
        loop, client, options, phase_of,
        connect::Watched<std::string>::Listener{
            [this] { write_state(); },
            [](const connect::ApiError& error) {
              write({{"event", "failure"}, {"reason", to_string(error.reason)}, {"message", error.message()}});
            }});
    loop_.watch(STDIN_FILENO, EPOLLIN, *this);
  }

  void on_ready(std::uint32_t) override {
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got <= 0) return loop_.stop();
    input_.append(bytes, static_cast<std::size_t>(got));
    for (std::size_t end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
      run(input_.substr(0, end));
      input_.erase(0, end + 1);
    }
  }

 private:
  void run(const std::string& line) {
    std::istringstream words{line};
    std::string command, name, version;
    std::uint32_t replicas = 0;
    words >> command >> name >> replicas >> version;
    if (command == "state") return write_state();
    if (command == "get" || version.empty()) {
      const connect::ApiCall call = connect::get_scale_call(connect::kDeployments, namespace_, name);
      return client_.request(call, [this, command, name, replicas, call](const connect::ApiAnswer& answer) {
        const auto scale = read(call, answer);
        if (command == "get" || !scale) return write_result(scale);
        set(name, replicas, scale->resource_version);
      });
    }
    set(name, replicas, version);
  }
  void set(const std::string& name, std::uint32_t replicas, const std::string& version) {
    const connect::ApiCall call = connect::set_scale_call(connect::kDeployments, namespace_, name, replicas, version);
    client_.request(call, [call](const connect::ApiAnswer& answer) { write_result(read(call, answer)); });
  }
  static tl::expected<connect::ApiScale, connect::ApiError> read(const connect::ApiCall& call,
                                                                 const connect::ApiAnswer& answer) {
    if (!answer) return tl::make_unexpected(answer.error());
    return connect::parse_scale(call, *answer);
  }
  static void write_result(const tl::expected<connect::ApiScale, connect::ApiError>& scale) {
    if (!scale)
      return write(
          {{"event", "refused"}, {"reason", to_string(scale.error().reason)}, {"message", scale.error().message()}});
    write({{"event", "scale"},
           {"replicas", scale->replicas},
           {"selector", scale->selector},
           {"version", scale->resource_version}});
  }
  void write_state() const {
    const connect::ReflectorCounters& counters = pods_->counters();
    write({{"event", "state"},
           {"pods", pods_->all()},
           {"is_known", pods_->confirmed_at().has_value()},
           {"is_stale", pods_->is_stale()},
           {"lists", counters.lists},
           {"watches", counters.watches},
           {"bookmarks", counters.bookmarks},
           {"failures", counters.failures}});
  }

  net::Loop& loop_;
  connect::KubernetesClient& client_;
  const std::string namespace_;
  std::string input_;
  std::optional<connect::Watched<std::string>> pods_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 5) return 2;
  net::Loop loop;
  const net::SignalWatch signals{loop, {SIGTERM}, [&](int) { loop.stop(); }};
  net::Client http{loop};
  auto access = connect::find_kubernetes_access(words[1]);
  if (!access) return std::cerr << access.error().message() << "\n", 2;
  connect::KubernetesOptions options;
  options.access = *std::move(access);
  const auto client = connect::KubernetesClient::start(loop, http, options, [](const std::string& cause) {
    write({{"event", "failure"}, {"reason", "credentials"}, {"message", cause}});
  });
  if (!client) return std::cerr << client.error().message() << "\n", 2;
  const auto seconds = [&](int word) {
    int value = 0;
    std::istringstream{words[word]} >> value;
    return std::chrono::seconds{value};
  };
  Program program{loop, **client, words[2], seconds(3), seconds(4)};
  loop.run();
  return 0;
}
