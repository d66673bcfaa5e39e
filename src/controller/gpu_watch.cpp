#include "controller/gpu_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::controller {
namespace {

constexpr core::Duration kExporterTimeout = std::chrono::seconds{2};
constexpr std::size_t kOwnersMax = 10'000;

core::Result<std::vector<telemetry::GpuFigures>> read_answer(const std::string& url,
                                                             const core::Result<net::FetchAnswer>& answer) {
  if (!answer) return tl::make_unexpected(answer.error());
  if (answer->status != 200)
    return core::environment_error(url, fmt::format("responds with status {}", answer->status));
  const auto exposition = telemetry::parse_exposition(answer->body, url);
  if (!exposition) return tl::make_unexpected(exposition.error());
  auto figures = telemetry::read_gpu_metrics(*exposition);
  if (figures.empty()) return core::environment_error(url, "contains no metrics of a DCGM exporter");
  return figures;
}

}  // namespace

GpuWatch::GpuWatch(net::Loop& loop, net::Client& client, FleetEvents& events, std::vector<std::string> urls,
                   net::Resolver::Lookup resolve, core::Duration interval)
    : loop_(loop), client_(client), events_(events), resolver_(loop, std::move(resolve)) {
  for (std::string& text : urls) {
    auto url = net::parse_url(text);
    exporters_.push_back({std::move(text), std::move(url), std::nullopt});
  }
  timer_ = loop_.every(interval, [this] { read(); });
}

GpuWatch::~GpuWatch() { loop_.cancel(timer_); }

void GpuWatch::read() {
  const core::Instant now = loop_.now();
  std::erase_if(owners_, [&](const auto& owner) { return now - owner.second.at > kAgeMax; });
  for (std::size_t index = 0; index < exporters_.size(); ++index) {
    Exporter& exporter = exporters_[index];
    if (exporter.in_flight) continue;
    if (!exporter.url) {
      report_failure(exporter, exporter.url.error().message());
      continue;
    }
    exporter.in_flight = true;
    if (const auto numeric = net::Address::parse(exporter.url->host, exporter.url->port)) exporter.address = *numeric;
    if (exporter.address) {
      fetch(index);
      continue;
    }
    resolver_.resolve(exporter.url->host, exporter.url->port, [this, index](const net::Resolver::Addresses& found) {
      if (!found) return take(index, tl::make_unexpected(found.error()));
      exporters_[index].address = found->front();
      fetch(index);
    });
  }
}

void GpuWatch::fetch(std::size_t index) {
  const Exporter& exporter = exporters_[index];
  net::Url url = *exporter.url;
  const std::string path = url.path.empty() ? "/metrics" : std::exchange(url.path, {});
  net::fetch(client_, net::request_to(url, *exporter.address, path, kExporterTimeout),
             [this, index](const core::Result<net::FetchAnswer>& answer) { take(index, answer); });
}

void GpuWatch::take(std::size_t index, const core::Result<net::FetchAnswer>& answer) {
  Exporter& exporter = exporters_[index];
  exporter.in_flight = false;
  if (!answer) exporter.address.reset();  // The name may have another address by now.
  const auto all = read_answer(exporter.text, answer);
  if (!all) return report_failure(exporter, all.error().message());
  exporter.unavailable = false;
  // Without pods, the GPUs belong to what runs on the exporter's host.
  const auto of_host = std::find_if(all->begin(), all->end(), [](const auto& each) { return each.pod.empty(); });
  for (const telemetry::GpuFigures& figures : *all)
    if (!figures.pod.empty()) store("pod/" + figures.pod, figures);
  const auto count = std::count_if(all->begin(), all->end(), [](const auto& each) { return each.pod.empty(); });
  if (count == 1) {
    store("host/" + exporter.url->host, *of_host);
    if (!of_host->host.empty()) store("host/" + of_host->host, *of_host);
  }
}

void GpuWatch::store(const std::string& key, const telemetry::GpuFigures& figures) {
  if (owners_.size() >= kOwnersMax && !owners_.contains(key)) return;
  Owner& owner = owners_[key];
  if (owner.at == loop_.now()) return;  // The host has two names that are the same.
  owner.figures = figures;
  owner.at = loop_.now();
  owner.memory.observe(owner.at, figures.memory_usage);
}

void GpuWatch::report_failure(Exporter& exporter, const std::string& cause) {
  if (std::exchange(exporter.unavailable, true)) return;
  events_.add(loop_.now(), true, {}, fmt::format("GPU metrics of {} cannot be read: {}", exporter.text, cause));
  events_.log().write(logging::Event::kGpuMetricsUnavailable, {{"url", exporter.text}, {"cause", cause}});
}

void GpuWatch::fill(signals::EngineSample& sample, const std::string& name, const std::string& host,
                    bool is_alone_on_host) const {
  auto found = owners_.find("pod/" + name);
  if (found == owners_.end() && is_alone_on_host) found = owners_.find("host/" + host);
  if (found == owners_.end() || loop_.now() - found->second.at > kAgeMax) return;
  const Owner& owner = found->second;
  sample.gpu_utilisation = owner.figures.utilisation;
  sample.gpu_memory_usage = owner.figures.memory_usage;
  sample.gpu_memory_bandwidth = owner.figures.bandwidth;
  sample.gpu_memory_full_in = owner.memory.full_in();
}

}  // namespace penstock::controller
