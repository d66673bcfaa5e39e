#include "controller/gpu_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::controller {
namespace {

constexpr core::Duration kExporterTimeout = std::chrono::seconds{2};
constexpr std::size_t kOwnersMax = 10'000;  // Pods, and hosts.

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

GpuWatch::GpuWatch(net::Loop& loop, net::Client& client, FleetEvents& events, GpuWatchOptions options)
    : loop_(loop),
      client_(client),
      events_(events),
      in_namespace_(std::move(options.in_namespace)),
      credentials_(std::move(options.credentials)),
      resolver_(loop, std::move(options.resolve)) {
  for (std::string& text : options.urls) {
    auto url = net::parse_url(text);
    exporters_.push_back({std::move(text), std::move(url), std::nullopt, 0});
  }
  timer_ = loop_.every(options.interval, [this] { read(); });
}

GpuWatch::~GpuWatch() { loop_.cancel(timer_); }

void GpuWatch::read() {
  const auto is_old = [now = loop_.now()](const auto& each) { return now - each.second.at > kAgeMax; };
  std::erase_if(pods_, is_old);
  std::erase_if(hosts_, is_old);
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
      // After a failure the next address has its turn.
      exporters_[index].address = (*found)[exporters_[index].addresses_tried++ % found->size()];
      fetch(index);
    });
  }
}

void GpuWatch::fetch(std::size_t index) {
  const Exporter& exporter = exporters_[index];
  net::Url url = *exporter.url;
  const std::string path = url.path.empty() ? "/metrics" : std::exchange(url.path, {});
  const auto credentials = credentials_ ? credentials_(exporter.text) : nullptr;
  if (url.tls && credentials == nullptr)
    return take(index, core::environment_error(exporter.text, "needs TLS, and it is not known whom to trust"));
  net::fetch(client_,
             net::request_to(url, *exporter.address, path, kExporterTimeout, credentials ? credentials->tls : nullptr),
             [this, index](const core::Result<net::FetchAnswer>& answer) { take(index, answer); });
}

void GpuWatch::take(std::size_t index, const core::Result<net::FetchAnswer>& answer) {
  Exporter& exporter = exporters_[index];
  exporter.in_flight = false;
  if (!answer) exporter.address.reset();  // The name may have another address by now.
  const auto all = read_answer(exporter.text, answer);
  if (!all) return report_failure(exporter, all.error().message());
  exporter.unavailable = false;
  const std::string& host = exporter.url->host;
  for (const telemetry::GpuFigures& figures : *all) {
    if (figures.pod.empty()) continue;
    Pod pod{figures.pod, figures.in_namespace, {}};
    if (pod.in_namespace.empty()) pod.host = figures.host.empty() ? host : figures.host;
    store(pods_, pod, figures);
  }
  // Without pods, the GPUs belong to what runs on the exporter's host.
  const auto of_host = std::find_if(all->begin(), all->end(), [](const auto& each) { return each.pod.empty(); });
  const auto count = std::count_if(all->begin(), all->end(), [](const auto& each) { return each.pod.empty(); });
  if (count == 1) {
    store(hosts_, host, *of_host);
    if (!of_host->host.empty()) store(hosts_, of_host->host, *of_host);
  }
}

template <class Key>
void GpuWatch::store(std::map<Key, Gpus>& all, const Key& key, const telemetry::GpuFigures& figures) {
  if (all.size() >= kOwnersMax && !all.contains(key)) return;
  Gpus& gpus = all[key];
  if (gpus.at == loop_.now()) return;  // The host has two names that are the same.
  gpus.figures = figures;
  gpus.at = loop_.now();
  gpus.memory.observe(gpus.at, figures.memory_usage);
}

void GpuWatch::report_failure(Exporter& exporter, const std::string& cause) {
  if (std::exchange(exporter.unavailable, true)) return;
  events_.add(loop_.now(), true, {}, fmt::format("GPU metrics of {} cannot be read: {}", exporter.text, cause));
  events_.log().write(logging::Event::kGpuMetricsUnavailable, {{"url", exporter.text}, {"cause", cause}});
}

const GpuWatch::Gpus* GpuWatch::of_pod(const std::string& name) const {
  const auto first = pods_.lower_bound({name, {}, {}});
  const Gpus* only = nullptr;
  for (auto pod = first; pod != pods_.end() && pod->first.name == name; ++pod) {
    if (!in_namespace_.empty() && pod->first.in_namespace == in_namespace_) return &pod->second;
    const bool may_be_meant = in_namespace_.empty() || pod->first.in_namespace.empty();
    only = pod == first && may_be_meant ? &pod->second : nullptr;
  }
  return only;
}

void GpuWatch::fill(signals::EngineSample& sample, const std::string& name, const std::string& host,
                    bool is_alone_on_host) const {
  const Gpus* gpus = of_pod(name);
  if (gpus == nullptr && is_alone_on_host)
    if (const auto found = hosts_.find(host); found != hosts_.end()) gpus = &found->second;
  if (gpus == nullptr || loop_.now() - gpus->at > kAgeMax) return;
  sample.gpu_utilisation = gpus->figures.utilisation;
  sample.gpu_memory_usage = gpus->figures.memory_usage;
  sample.gpu_memory_bandwidth = gpus->figures.bandwidth;
  sample.gpu_memory_full_in = gpus->memory.full_in();
}

}  // namespace penstock::controller
