// `penstock up`: runs all of Penstock on one machine, with traffic.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "cli/up_checks.h"
#include "cli/up_folder.h"
#include "cli/up_summary.h"
#include "cli/up_users.h"
#include "configuration/configuration.h"
#include "connect/processes/process_host.h"
#include "connect/whole_file.h"
#include "net/access.h"
#include "net/fetch.h"
#include "net/signals.h"
#include "options/values.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

constexpr core::Duration kSummaryTimeout = std::chrono::seconds{2};

options::Table table_of(UpOptions& made) {
  using namespace options;
  Table table;
  table.group("Flags");
  table.add({"", "--dashboard", "address of the live page; 0 disables it"}, address(made.dashboard));
  table.add({"", "--listen", "address of the OpenAI API"}, address(made.listen));
  table.add({"", "--admin-listen", "address of the gateway's metrics"}, address(made.admin_listen));
  table.add({"", "--ports", "ports for the engines, three for each engine"}, text(made.ports))
      .placeholder("FIRST-LAST");
  table.add({"", "--peak", "highest request rate of the simulated day, per second"}, text(made.peak))
      .placeholder("RATE");
  table.add({"", "--trough", "lowest request rate of the simulated day, per second"}, text(made.trough))
      .placeholder("RATE");
  table.add({"", "--period", "length of the simulated day"}, text(made.period)).placeholder("DURATION");
  table.add({"", "--duration", "end after this time; 0s runs until Ctrl-C"}, duration(made.duration));
  table.add({"", "--max-replicas", "maximum number of engines"}, count(made.max_replicas, 1, 10'000));
  table
      .add({"", "--disaggregated", "separate prefill and decode engines, with KV transfer between them"},
           boolean(made.disaggregated))
      .implies("true");
  table.add({"", "--no-load", "do not generate traffic"}, boolean(made.no_load)).implies("true");
  table.add({"", "--config", "YAML file with pools, SLO, planner, tenants and models"}, text(made.config))
      .placeholder("FILE");
  table.add({"", "--state-dir", "folder for logs, state and ledger"}, text(made.state_folder))
      .placeholder("FOLDER")
      .by_default("a new one in ~/.local/state/penstock/up, which keeps the last 20 runs");
  configuration::add_log(table, made.log);
  return table;
}

Usage up_usage(const options::Table& table) {
  Usage usage;
  usage.command = "up";
  usage.summary =
      "Runs everything on this machine, with nothing from outside: simulated engines that the planner starts and "
      "stops,\n"
      "the gateway in front of them, a day of traffic in some minutes, and the live page. Ctrl-C ends it all.";
  usage.flags = flags_of(table);
  usage.notes =
      "Then, for example:\n"
      "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Authorization: Bearer sk-demo' \\\n"
      "    -H 'Content-Type: application/json' \\\n"
      "    -d "
      "'{\"model\":\"penstock-sim\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"stream\":true}'\n";
  return usage;
}

// Configures gateway and planner in one file. Intervals are short because the simulated day is short.
std::string demo_config(bool disaggregated, std::uint32_t max_replicas) {
  std::string pools = fmt::format(
      "pools:\n"
      "  - {{name: chat, replicas: 1, min_replicas: 1, max_replicas: {}}}\n",
      max_replicas);
  if (disaggregated)
    pools = fmt::format(
        "pools:\n"
        "  - {{name: prefill, role: prefill, replicas: 1, min_replicas: 1, max_replicas: {0}}}\n"
        "  - {{name: decode, role: decode, replicas: 1, min_replicas: 1, max_replicas: {0}}}\n",
        max_replicas);
  return "model: penstock-sim\n"
         "start_up: 10s\n"
         "price: 2.5\n"
         "engine: {block_size: 16, kv_blocks: 12288}\n" +
         pools +
         "slo: {ttft: 2s, itl: 50ms, goal: 0.99}\n"
         "planner:\n"
         "  throughput_interval: 30s\n"
         "  tick_interval: 2s\n"
         "  memory: 80s\n"
         "  stabilisation: 20s\n"
         "  failure_cooldown: 10s\n"
         "  manual_hold: 30s\n"
         "models:\n"
         "  - {name: penstock-sim, input_price: 0.5, cached_input_price: 0.1, output_price: 1.5}\n"
         "gateway: {anonymous: true, expose_routing: always}\n"
         "tenants:\n"
         "  - {name: shop, keys: [sk-shop], weight: 2}\n"
         "  - {name: search, keys: [sk-search]}\n"
         "  - {name: nightly, keys: [sk-nightly], class: batch, tokens_per_minute: 600000, over_budget: queue}\n"
         "  - {name: demo, keys: [sk-demo], concurrent: 8}\n";
}

struct Part {
  std::string name;
  std::vector<std::string> words;
  std::string log;
  std::optional<connect::Process> process;
  bool may_end = false;  // Its end is not an error.
};

// Starts the processes one after the other, and stops them in the order that cuts no request.
class Supervisor {
 public:
  // Each of the models has a load with a day of its own.
  Supervisor(net::Loop& loop, const UpOptions& options, std::filesystem::path folder, UpUsers users)
      : loop_(loop), client_(loop), options_(options), folder_(std::move(folder)), users_(std::move(users)) {}

  core::Result<void> begin(const std::string& program, const std::string& config, const std::string& token_file) {
    const std::string replicas = folder_ / "replicas.json";
    parts_.push_back(part(
        "gateway", {program, "gateway", "--config", config, "--replicas-file", replicas, "--listen", options_.listen,
                    "--admin-listen", options_.admin_listen, "--ledger", folder_ / "ledger.sqlite",
                    "--admin-token-file", token_file, "--admin-token-guards", "prompts"}));
    parts_.push_back(part("planner", {program,
                                      "plan",
                                      "--config",
                                      config,
                                      "--engines",
                                      "local",
                                      "--bind-engines",
                                      "--gateway",
                                      admin(),
                                      "--gateway-token-file",
                                      token_file,
                                      "--state-dir",
                                      folder_,
                                      "--dashboard",
                                      options_.dashboard,
                                      "--metrics-listen",
                                      "0",
                                      "--ports",
                                      options_.ports,
                                      "--decision-log",
                                      folder_ / "decisions.sqlite",
                                      "--report-dir",
                                      folder_}));
    for (Part& each : parts_)
      for (std::string& argument : log_arguments(options_.log)) each.words.push_back(std::move(argument));
    // Without a name, the load takes the first model that the gateway lists.
    for (std::size_t i = 0; i < std::max<std::size_t>(1, users_.models.size()) && !options_.no_load; ++i) {
      std::vector<std::string> words = load_words(options_);
      words.insert(words.begin(), program);
      parts_.push_back(part("load", std::move(words)));
      parts_.back().may_end = true;
      for (const std::string& word : users_.load_arguments()) parts_.back().words.push_back(word);
      if (users_.models.empty()) continue;
      for (const std::string& word : {std::string{"--model"}, users_.models[i]}) parts_.back().words.push_back(word);
      parts_.back().log = folder_ / fmt::format("load-{}.log", i + 1);
    }
    for (std::size_t i = 0; i < 2; ++i)
      if (auto started = start(parts_[i]); !started) return started;
    timers_.push_back(loop_.every(std::chrono::milliseconds{200}, [this] { check_processes(); }));
    timers_.push_back(loop_.every(std::chrono::milliseconds{300}, [this] { check_ready(); }));
    return {};
  }

  // Load stops first, so that no new requests arrive; then the planner, which drains its engines; the gateway last.
  void end(int code) {
    if (std::exchange(ending_, true)) {
      for (Part& each : parts_)
        if (each.process) static_cast<void>(host_.signal(*each.process, SIGKILL));
      return loop_.stop();
    }
    code_ = code;
    print_status("ending: load, planner with its engines, gateway");
    has_load() ? end_next() : read_summary();
  }

  [[nodiscard]] int code() const { return code_; }

 private:
  Part part(std::string name, std::vector<std::string> words) const {
    Part made;
    made.log = folder_ / (name + ".log");
    made.name = std::move(name);
    made.words = std::move(words);
    return made;
  }
  [[nodiscard]] std::string admin() const { return client_address(options_.admin_listen); }
  [[nodiscard]] bool has_load() const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const Part& each) { return each.name == "load" && each.process; });
  }
  static void print_status(const std::string& text) { static_cast<void>(print("up: " + text + "\n")); }

  core::Result<void> start(Part& started) {
    connect::Command command;
    command.argv = started.words;
    command.log_file = started.log;
    command.dies_with_us = true;
    auto process = host_.start(command);
    if (!process) return tl::make_unexpected(process.error());
    started.process = *process;
    return {};
  }

  void check_ready() {
    if (ready_ || ending_ || std::exchange(checking_, true)) return;
    const auto address = parse_listen(admin(), "--admin-listen");
    net::fetch(client_, net::request_to(*address, "/ready", std::chrono::seconds{2}),
               [this](const core::Result<net::FetchAnswer>& answer) {
                 if (!answer || answer->status != 200) return (void)(checking_ = false);
                 users_.models.empty() ? begin_load() : check_models();
               });
  }

  // The gateway is ready with the first engine; the load of a model needs one that serves it.
  void check_models() {
    const auto address = parse_listen(client_address(options_.listen), "--listen");
    net::FetchRequest request = net::request_to(*address, "/v1/models", std::chrono::seconds{2});
    if (const std::string key = users_.key(); !key.empty())
      request.field_lines = fmt::format("Authorization: Bearer {}\r\n", key);
    net::fetch(client_, std::move(request), [this](const core::Result<net::FetchAnswer>& answer) {
      const bool are_all =
          answer && answer->status == 200 && std::ranges::all_of(users_.models, [&](const std::string& model) {
            return answer->body.find('"' + model + '"') != std::string::npos;
          });
      are_all ? begin_load() : (void)(checking_ = false);
    });
  }

  void begin_load() {
    checking_ = false;
    if (ready_ || ending_) return;
    ready_ = true;
    announce();
    for (std::size_t i = 2; i < parts_.size(); ++i)
      if (auto started = start(parts_[i]); !started) return fail(started.error().message());
  }

  void announce() {
    const std::string page = options_.dashboard == "0" ? "0" : client_address(options_.dashboard);
    print_status("the first engine serves");
    static_cast<void>(
        print(fmt::format("  OpenAI API     http://{}/v1   ({})\n"
                          "  live page      {}\n"
                          "  metrics        http://{}/metrics{}\n"
                          "  logs, ledger   {}\n"
                          "Ctrl-C ends it all.\n",
                          client_address(options_.listen), users_.text(), page == "0" ? "off" : "http://" + page,
                          admin(), page == "0" ? "" : " and http://" + page + "/metrics", folder_.string())));
  }

  void check_processes() {
    for (const connect::Ended& ended : host_.reap())
      for (Part& each : parts_) {
        if (each.process != ended.process) continue;
        each.process.reset();
        if (ending_) {
          print_status(each.name + " ended");
          each.name == "load" && !has_load() ? read_summary() : end_next();
        } else if (!each.may_end) {
          const std::string line = connect::last_line(each.log);
          fail(fmt::format("the {} ended by itself ({}){}", each.name, connect::describe(ended),
                           line.empty() ? "" : ": " + line),
               ended.exit_code == kBadInput ? kBadInput : kEnvironment);
        } else {
          print_status(each.name + " has ended: " + connect::last_line(each.log));
        }
      }
  }

  // The figures of the run are read while the planner still answers, of one deployment after the other. The first one
  // is read without its name, and lists the others.
  void read_summary() {
    const auto page = options_.dashboard == "0" ? std::nullopt : address_of(options_.dashboard);
    if (!page || !ready_) return end_next();
    read_deployment(*page);
  }

  void read_deployment(const net::Address& page) {
    const std::string query = runs_.empty() ? "" : "?deployment=" + deployments_[runs_.size()];
    const auto end_reading = [this] {
      summary_ = run_summary(runs_);
      end_next();
    };
    net::fetch(client_, net::request_to(page, "/api/state" + query, kSummaryTimeout),
               [this, page, query, end_reading](const core::Result<net::FetchAnswer>& state) {
                 if (!state || state->status != 200) return end_reading();
                 if (runs_.empty()) deployments_ = deployments_in(state->body);
                 net::fetch(
                     client_, net::request_to(page, "/api/points" + query, kSummaryTimeout),
                     [this, page, end_reading, state = state->body](const core::Result<net::FetchAnswer>& points) {
                       runs_.push_back({state, points && points->status == 200 ? points->body : ""});
                       runs_.size() < deployments_.size() ? read_deployment(page) : end_reading();
                     });
               });
  }

  static std::optional<net::Address> address_of(const std::string& text) {
    const auto address = parse_listen(text, "--dashboard");
    return address ? std::optional{*address} : std::nullopt;
  }

  void fail(const std::string& why, int code = kEnvironment) {
    print_error_text("penstock: " + report::printable(why) + "\n");
    end(code);
  }

  // Without a gateway no requests are open, and the planner could not learn that: it is killed together with its
  // engines.
  void end_next() {
    const bool any_users = parts_.front().process.has_value();
    for (const std::string_view name : {"load", "planner", "gateway"})
      for (Part& each : parts_)
        if (each.name == name && each.process) {
          static_cast<void>(host_.signal(*each.process, name == "planner" && !any_users ? SIGKILL : SIGTERM));
          return;
        }
    if (!summary_.empty()) static_cast<void>(print(summary_));
    print_status(folder_contents(folder_, reports_before_) + ": " + folder_.string());
    loop_.stop();
  }

  net::Loop& loop_;
  net::Client client_;
  const UpOptions& options_;
  std::filesystem::path folder_;
  UpUsers users_;
  std::size_t reports_before_ = count_reports(folder_);
  connect::ProcessHost host_;
  std::vector<Part> parts_;
  std::vector<net::Loop::Timer> timers_;
  bool ready_ = false, checking_ = false, ending_ = false;
  int code_ = kGood;
  std::vector<std::string> deployments_;  // Empty if there is only one.
  std::vector<RunDocuments> runs_;
  std::string summary_;
};

core::Result<std::string> config_file(const UpOptions& options, const std::filesystem::path& folder) {
  if (!options.config.empty()) return options.config;
  const std::string path = folder / "penstock.yaml";
  const std::string text = demo_config(options.disaggregated, options.max_replicas);
  return connect::replace_file(path, text).map([&] { return path; });
}

// The token with which the planner reads texts of prompts from the gateway.
core::Result<std::string> token_file(const std::filesystem::path& folder) {
  const std::string path = folder / "admin-token";
  if (auto written = connect::replace_file(path, net::make_token() + "\n"); !written)
    return tl::make_unexpected(written.error());
  return path;
}

}  // namespace

int up(const Arguments& arguments) {
  UpOptions made;
  const options::Table table = table_of(made);
  const auto parsed = parse_arguments(up_usage(table), arguments);
  if (!parsed) return parsed.error();
  if (const auto read = read_flags(table, *parsed); !read) return read.error();
  if (const options::Problems problems = check_parts(made, *parsed); !problems.empty()) return report_error(problems);
  if (const auto checked = check_addresses(made); !checked) return report_error(checked.error());
  const auto folder = make_run_folder(made.state_folder);
  if (!folder) return report_error(folder.error());
  const auto lock = lock_run_folder(*folder);
  if (!lock) return report_error(lock.error());
  const auto config = config_file(made, *folder);
  if (!config) return report_error(config.error());
  const auto token = token_file(*folder);
  if (!token) return report_error(token.error());
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return report_error({core::ErrorCode::kEnvironment, "/proc/self/exe", error.message(), {}});

  net::Loop loop;
  Supervisor supervisor{loop, made, *folder, users_of(*config)};
  const net::SignalWatch signals{loop, {SIGTERM, SIGINT}, [&](int) { supervisor.end(kGood); }};
  if (const int code = print("up: starting gateway, planner and engines\n"); code != kGood) return code;
  if (auto begun = supervisor.begin(program, *config, *token); !begun) return report_error(begun.error());
  if (made.duration > core::Duration{}) loop.after(made.duration, [&] { supervisor.end(kGood); });
  loop.run();
  return supervisor.code();
}

}  // namespace penstock::cli
