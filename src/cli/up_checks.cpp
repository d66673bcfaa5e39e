#include "cli/up_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "cli/gateway_setup.h"
#include "cli/plan_setup.h"
#include "configuration/configuration.h"
#include "load/setup.h"
#include "options/yaml.h"

namespace penstock::cli {
namespace {

options::Problems check_config(const UpOptions& options, const Parsed& parsed) {
  const auto problem = [](const char* flag, const char* what, const char* hint) {
    return options::Problems{core::Error{core::ErrorCode::kInvalidInput, flag, what, hint}};
  };
  if (options.config.empty()) return {};
  if (options.config == "-")
    return problem("--config", "cannot be standard input, because several processes read it", "name a file");
  if (parsed.has("--max-replicas"))
    return problem("--max-replicas", "has no effect with --config", "write max_replicas in the file");
  if (parsed.has("--disaggregated"))
    return problem("--disaggregated", "has no effect with --config", "give the pools of the file their roles");
  auto text = options::read_text_file(options.config, options::YamlLimits{}.bytes_max);
  if (!text) {
    text.error().code = core::ErrorCode::kInvalidInput;
    return {text.error()};
  }
  configuration::Configuration made = live_defaults();
  const options::Table table = configuration::configuration_table(made);
  auto reading = configuration::load(made, table, {options.config, *std::move(text), {}});
  if (!reading) return reading.error();
  for (const auto& [path, file] : {std::pair{"gateway.tls.certificate", &made.gateway.tls_certificate},
                                   {"gateway.admin_tls.certificate", &made.gateway.admin.tls_certificate}})
    if (!file->empty()) reading->report(path, "`penstock up` sends requests by plain HTTP", "leave it out");
  return reading->problems();
}

options::Problems check_load(const UpOptions& options) {
  load::LoadOptions made;
  const options::Table table = load::load_table(made);
  std::vector<std::string> words = load_words(options);
  words.erase(words.begin());
  words.front() = "http://127.0.0.1:80";  // The address is checked elsewhere.
  const auto parsed = options::parse_words(load::load_usage(table), words);
  if (!parsed) return {parsed.error()};
  const options::Reading reading = options::read(table, {{}, {}, parsed->flags});
  if (!reading.good()) return reading.problems();
  if (const auto setup = load::make_load_setup(made, parsed->operands.front(), *parsed); !setup) return {setup.error()};
  return {};
}

options::Problems check_ports(const UpOptions& options) {
  PlanOptions made;
  return options::read(plan_table(made), {{}, {}, {{"--ports", options.ports}}}).problems();
}

core::Result<int> open_address(const std::string& text, const char* flag) {
  const auto address = parse_listen(text, flag);
  if (!address) return tl::make_unexpected(address.error());
  if (address->port() == 0)
    return core::invalid_input(flag, "needs a port, because the other parts connect to it", "as 127.0.0.1:8000");
  return net::listen_on(*address, false);
}

}  // namespace

options::Problems check_parts(const UpOptions& options, const Parsed& parsed) {
  options::Problems all = check_config(options, parsed);
  for (options::Problems more : {check_ports(options), options.no_load ? options::Problems{} : check_load(options)})
    for (core::Error& problem : more) all.push_back(std::move(problem));
  return all;
}

core::Result<void> check_addresses(const UpOptions& options) {
  std::vector<int> opened;
  core::Result<void> checked;
  for (const auto& [flag, text] : {std::pair{"--listen", options.listen},
                                   {"--admin-listen", options.admin_listen},
                                   {"--dashboard", options.dashboard}}) {
    if (text == "0" && std::string_view{flag} == "--dashboard") continue;
    checked = open_address(text, flag).map([&](int socket) { opened.push_back(socket); });
    if (checked) continue;
    // The error of a port names the address.
    if (checked.error().where != flag) checked.error().where = fmt::format("{} {}", flag, checked.error().where);
    break;
  }
  for (const int socket : opened) ::close(socket);
  return checked;
}

std::vector<std::string> load_words(const UpOptions& options) {
  return {"load",
          "http://" + client_address(options.listen),
          "--profile",
          "diurnal",
          "--period",
          options.period,
          "--peak",
          options.peak,
          "--trough",
          options.trough,
          "--duration",
          "365d",
          "--input-tokens",
          "200..6000",
          "--output-tokens",
          "40..400",
          "--prefixes",
          "12",
          "--shared-prefix-tokens",
          "1024",
          "--prefix-share",
          "0.6"};
}

std::string client_address(const std::string& listen) {
  const auto address = parse_listen(listen, {});
  if (!address) return listen;
  std::string text = address->text();
  for (const auto& [all, loopback] :
       {std::pair<std::string_view, std::string_view>{"0.0.0.0:", "127.0.0.1:"}, {"[::]:", "[::1]:"}})
    if (text.starts_with(all)) text.replace(0, all.size(), loopback);
  return text;
}

}  // namespace penstock::cli
