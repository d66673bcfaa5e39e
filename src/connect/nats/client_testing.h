// The client with Debian's nats-server.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nats/nats.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "connect/nats/client.h"

namespace penstock::connect::testing {

class TestFolder {
 public:
  TestFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "penstock-nats-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  [[nodiscard]] std::string write(const std::string& name, std::string_view text) const {
    std::ofstream{path_ / name} << text;
    return path_ / name;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A nats-server with a configuration, at a port that stays the same when it is started again.
class NatsServer {
 public:
  explicit NatsServer(std::string_view more = {}) { start(more); }
  ~NatsServer() { stop(); }
  NatsServer(const NatsServer&) = delete;
  NatsServer& operator=(const NatsServer&) = delete;

  void start(std::string_view more = {}) {
    std::ostringstream text;
    text << "host: 127.0.0.1\nport: " << (port_ == 0 ? -1 : port_) << "\nports_file_dir: \"" << folder_.path().string()
         << "\"\n"
         << more << "\n";
    const std::string file = folder_.write("nats.conf", text.str());
    const char* const words[] = {"nats-server", "-c", file.c_str(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int output : {STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0);
    ASSERT_EQ(::posix_spawnp(&process_, words[0], &actions, nullptr, const_cast<char**>(words), environ), 0)
        << "nats-server is not installed; make setup installs it";
    posix_spawn_file_actions_destroy(&actions);
    const auto ports = folder_.path() / ("nats-server_" + std::to_string(process_) + ".ports");
    for (int waited = 0; port_ == 0 && waited < 3'000; ++waited) {
      std::ifstream file_of_ports{ports};
      std::stringstream content;
      content << file_of_ports.rdbuf();
      const std::string names = content.str();
      if (const std::size_t end = names.find("\"]"); end != std::string::npos)
        std::from_chars(names.data() + names.rfind(':', end) + 1, names.data() + end, port_);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    EXPECT_NE(port_, 0);
  }
  void stop() {
    if (process_ == 0) return;
    ::kill(std::exchange(process_, 0), SIGKILL);
    ::wait(nullptr);
  }
  [[nodiscard]] NatsEndpoint endpoint(bool tls = false) const { return {"127.0.0.1", port_, {}, tls}; }
  [[nodiscard]] std::string url() const { return "nats://127.0.0.1:" + std::to_string(port_); }

 private:
  TestFolder folder_;
  pid_t process_ = 0;
  std::uint16_t port_ = 0;
};

using Change = std::function<void(natsOptions*)>;

// Publishes messages, and returns once the server has them.
inline void publish(const NatsServer& server, const std::string& subject, const std::string& payload, int count = 1,
                    const Change& change = {}) {
  natsOptions* options = nullptr;
  natsConnection* connection = nullptr;
  ASSERT_EQ(natsOptions_Create(&options), NATS_OK);
  natsOptions_SetURL(options, server.url().c_str());
  if (change) change(options);
  EXPECT_EQ(natsConnection_Connect(&connection, options), NATS_OK);
  for (int i = 0; i < count; ++i) natsConnection_PublishString(connection, subject.c_str(), payload.c_str());
  EXPECT_EQ(natsConnection_Flush(connection), NATS_OK);
  natsConnection_Destroy(connection);
  natsOptions_Destroy(options);
}

class NatsClientTest : public ::testing::Test {
 protected:
  NatsClientTest() {
    options.backoff = std::chrono::milliseconds{5};
    options.backoff_max = std::chrono::milliseconds{20};
    options.connect_time = std::chrono::seconds{10};
  }
  void open(const NatsEndpoint& endpoint) {
    client = std::make_unique<NatsClient>(
        loop, endpoint,
        NatsClient::Listener{[this](const std::string& subject, std::string_view payload) {
                               messages.push_back(subject + ": " + std::string{payload});
                             },
                             [this](const std::string& cause) { reports.push_back(cause); }},
        options);
  }
  void run_until(const std::function<bool()>& condition) {
    const auto timeout = loop.after(std::chrono::seconds{60}, [&] { loop.stop(); });
    const auto poll = loop.every(std::chrono::milliseconds{1}, [&] {
      if (condition()) loop.stop();
    });
    loop.run();
    loop.cancel(timeout);
    loop.cancel(poll);
    EXPECT_TRUE(condition());
  }
  // Whether the client connects; otherwise the first report is the cause.
  std::string cause_of(const NatsEndpoint& endpoint) {
    reports.clear();
    open(endpoint);
    run_until([&] { return !reports.empty(); });
    client.reset();
    return reports.empty() ? "nothing was reported" : reports[0];
  }

  net::Loop loop;
  NatsOptions options;
  std::vector<std::string> messages, reports;
  TestFolder files;
  std::unique_ptr<NatsClient> client;  // It is destroyed before the loop.
};

}  // namespace penstock::connect::testing
