#include "telemetry/adapters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/enum_names.h"
#include "telemetry/adapter_rules.h"
#include "telemetry/saturated.h"

namespace penstock::telemetry {
namespace {

constexpr double kCountMax = 9.0e15;  // Above this limit a double does not hold every integer.
constexpr double kShareSlack =
    1.01;  // Allows for rounding and for pools that report slightly more than their capacity.
constexpr std::size_t kBucketsMax = 1'000;  // Maximum per histogram.
constexpr double kAgeMaxS = 1e9;            // A queue that is older counts as this old.

// Sums the series of one figure. With several engines behind one address, each engine has its own series.
struct Total {
  double sum = 0.0;
  std::uint32_t series = 0;
  bool wrong = false;

  void add(double value) {
    wrong = wrong || !(value >= 0.0 && value <= kCountMax);
    sum += value;
    ++series;
  }
};

struct Buckets {
  std::map<double, double> at_most;
  double sum = 0.0;
  bool wrong = false;
};

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The ranks that a series names.
struct Ranks {
  explicit Ranks(std::string_view labels) {
    for_each_label(labels, [this](std::string_view name, std::string_view value) {
      if (name == "tp_rank") tensor = value;
      if (name == "pp_rank") pipeline = value;
      if (name == "dp_rank") data = value;
    });
  }
  std::optional<std::string_view> tensor, pipeline, data;
};

// Tensor and pipeline ranks of one model instance report the same value; the first one is used. Data-parallel ranks
// have values of their own. With DP attention, which divides the tensor ranks of SGLang among them, the first tensor
// rank of a data-parallel rank is not 0.
class FirstRanks {
 public:
  void observe(const Ranks& ranks) {
    if (!ranks.data || !ranks.tensor || is_later_stage(ranks)) return;
    const auto rank = parse_number<std::uint32_t>(*ranks.tensor);
    if (!rank) return;
    std::uint32_t& first = tensor_ranks_.try_emplace(*ranks.data, *rank).first->second;
    first = std::min(first, *rank);
  }
  [[nodiscard]] bool contains(const Ranks& ranks) const {
    if (is_later_stage(ranks)) return false;
    if (!ranks.tensor) return true;
    if (!ranks.data) return *ranks.tensor == "0";
    const auto first = tensor_ranks_.find(*ranks.data);
    return first != tensor_ranks_.end() && parse_number<std::uint32_t>(*ranks.tensor) == first->second;
  }

 private:
  static bool is_later_stage(const Ranks& ranks) { return ranks.pipeline && *ranks.pipeline != "0"; }

  std::map<std::string_view, std::uint32_t> tensor_ranks_;  // By data-parallel rank.
};

class Reader {
 public:
  explicit Reader(const AdapterTable& table) : table_(table) {
    for (const AdapterRule& rule : table.rules) {
      if (rule.figure < Figure::kScalars) {
        rules_[rule.name].push_back(&rule);
        continue;
      }
      for (const std::string_view suffix : {"_bucket", "_sum"}) {
        names_.push_back(std::string(rule.name).append(suffix));
        histograms_.push_back(&rule);
      }
    }
    // The views are taken only now, because the vectors have moved while they grew.
    for (std::size_t i = 0; i < names_.size(); ++i) rules_[names_[i]].push_back(histograms_[i]);
    scrape_.kind = table.kind;
  }

  EngineScrape read(const Exposition& exposition) {
    const std::vector<Series> all = known_series(exposition);
    FirstRanks first;
    for (const Series& series : all) first.observe(series.ranks);
    for (const Series& series : all) {
      if (!first.contains(series.ranks)) continue;
      if (series.rules == nullptr)
        read_info(series.sample);
      else
        for (const AdapterRule* rule : *series.rules) apply(*rule, series.sample);
    }
    fill_queue();
    fill_kv();
    fill_counters();
    fill_latencies();
    return std::move(scrape_);
  }

 private:
  struct Series {
    const MetricSample& sample;
    const std::vector<const AdapterRule*>* rules;  // Null: it is the info of the table.
    Ranks ranks;
  };

  [[nodiscard]] std::vector<Series> known_series(const Exposition& exposition) const {
    std::vector<Series> all;
    std::string_view name;
    const std::vector<const AdapterRule*>* rules = nullptr;
    for (const MetricSample& sample : exposition.samples) {
      if (sample.name != name) {  // The series of one family are adjacent.
        name = sample.name;
        const auto found = rules_.find(name);
        rules = found == rules_.end() ? nullptr : &found->second;
      }
      const bool is_info = !table_.info.name.empty() && name == table_.info.name;
      if (rules != nullptr || is_info) all.push_back({sample, rules, Ranks{sample.labels}});
    }
    return all;
  }

  void apply(const AdapterRule& rule, const MetricSample& sample) {
    if (!rule.label.empty() && find_label(sample.labels, rule.label).value_or("") != rule.value) return;
    if (scrape_.model.empty())
      if (const auto model = find_label(sample.labels, table_.model_label)) scrape_.model = unescape_label(*model);
    if (rule.figure < Figure::kScalars)
      totals_[static_cast<std::size_t>(rule.figure)].add(sample.value);
    else
      add_to_histogram(rule, sample);
  }

  void add_to_histogram(const AdapterRule& rule, const MetricSample& sample) {
    Buckets& buckets = buckets_[static_cast<std::size_t>(rule.figure) - kScalarFigures];
    if (sample.name.size() == rule.name.size() + 4) {  // The suffix is _sum.
      buckets.sum += sample.value * rule.scale;
      buckets.wrong = buckets.wrong || !std::isfinite(sample.value);
      return;
    }
    const auto le = find_label(sample.labels, "le");
    const auto bound = !le                             ? std::nullopt
                       : *le == "+Inf" || *le == "inf" ? std::optional(std::numeric_limits<double>::infinity())
                                                       : parse_number<double>(*le);
    if (!bound || std::isnan(*bound) || !(sample.value >= 0.0 && sample.value <= kCountMax) ||
        buckets.at_most.size() > kBucketsMax) {
      buckets.wrong = true;
      return;
    }
    buckets.at_most[*bound * rule.scale] += sample.value;
  }

  void read_info(const MetricSample& sample) {
    const auto size = parse_number<std::uint32_t>(find_label(sample.labels, table_.info.block_tokens).value_or(""));
    const auto blocks = parse_number<std::uint64_t>(find_label(sample.labels, table_.info.blocks).value_or(""));
    if (size && *size > 0) scrape_.block_tokens = *size;
    if (size && blocks) info_tokens_.add(static_cast<double>(*size) * static_cast<double>(*blocks));
  }

  [[nodiscard]] std::optional<double> total(Figure figure) const {
    const Total& total = totals_[static_cast<std::size_t>(figure)];
    if (total.series == 0 || total.wrong) return std::nullopt;
    return total.sum;
  }
  [[nodiscard]] std::optional<double> mean(Figure figure) const {
    const auto sum = total(figure);
    if (!sum) return std::nullopt;
    return *sum / totals_[static_cast<std::size_t>(figure)].series;
  }
  [[nodiscard]] static std::optional<std::uint64_t> whole(std::optional<double> value) {
    if (!value || !(*value >= 0.0 && *value <= kCountMax)) return std::nullopt;
    return static_cast<std::uint64_t>(std::llround(*value));
  }
  [[nodiscard]] std::optional<std::uint64_t> count(Figure figure) const { return whole(total(figure)); }
  [[nodiscard]] std::optional<std::uint64_t> count(Figure figure, Figure otherwise) const {
    const auto first = count(figure);
    return first ? first : count(otherwise);
  }
  [[nodiscard]] std::optional<double> share(Figure figure) const {
    const auto value = mean(figure);
    if (!value || *value > kShareSlack) return std::nullopt;
    return std::min(1.0, *value);
  }
  [[nodiscard]] std::optional<std::uint64_t> blocks_to_tokens(Figure figure) const {
    const auto blocks = total(figure);
    return blocks && scrape_.block_tokens ? whole(*blocks * *scrape_.block_tokens) : std::nullopt;
  }

  void fill_queue() {
    scrape_.queued_requests = count(Figure::kQueued);
    scrape_.running_requests = count(Figure::kRunning);
    const auto active = count(Figure::kActive);
    const auto rest = [&](std::uint64_t part) { return *active > part ? *active - part : 0; };
    if (active && !scrape_.running_requests && scrape_.queued_requests)
      scrape_.running_requests = rest(*scrape_.queued_requests);
    if (active && !scrape_.queued_requests && scrape_.running_requests)
      scrape_.queued_requests = rest(*scrape_.running_requests);
    if (!scrape_.queued_requests) scrape_.queued_requests = count(Figure::kQueuedOther);
    scrape_.max_sequences = count(Figure::kMaxSequences);
    if (const auto awake = count(Figure::kAwake)) scrape_.asleep = *awake == 0;
    scrape_.preempted_requests = count(Figure::kPreempted);
    scrape_.deferred_requests = count(Figure::kDeferred);
    scrape_.open_transfers = count(Figure::kOpenTransfers);
    scrape_.queued_prefill_tokens = count(Figure::kQueuedPrefillTokens);
    scrape_.inflight_prefill_tokens = count(Figure::kInflightPrefillTokens);
    scrape_.scheduled_kv_tokens = count(Figure::kScheduledKvTokens);
    scrape_.queued_kv_tokens = count(Figure::kQueuedKvTokens);
    scrape_.oldest_queued_s = total(Figure::kOldestQueuedSeconds);
    scrape_.batch_merge_efficiency = share(Figure::kBatchMergeEfficiency);
  }

  void fill_kv() {
    if (const auto size = whole(mean(Figure::kBlockTokens)); size && *size > 0 && *size <= UINT32_MAX)
      scrape_.block_tokens = static_cast<std::uint32_t>(*size);
    auto& capacity = scrape_.kv_capacity_tokens = count(Figure::kKvCapacityTokens);
    if (!capacity) capacity = blocks_to_tokens(Figure::kKvCapacityBlocks);
    if (!capacity && info_tokens_.series > 0) capacity = whole(info_tokens_.sum);
    if (capacity == 0) capacity.reset();
    auto& used = scrape_.kv_used_tokens = count(Figure::kKvUsedTokens);
    if (!used) used = blocks_to_tokens(Figure::kKvUsedBlocks);
    scrape_.kv_used_bytes = count(Figure::kKvUsedBytes);
    scrape_.kv_capacity_bytes = count(Figure::kKvCapacityBytes);
    auto& usage = scrape_.kv_usage = share(Figure::kKvUsage);
    if (!usage) usage = share(Figure::kKvUsageOther);
    if (!usage && used && capacity && *used <= *capacity)
      usage = static_cast<double>(*used) / static_cast<double>(*capacity);
    if (!used && usage && capacity) used = whole(*usage * static_cast<double>(*capacity));
  }

  void fill_counters() {
    scrape_.prompt_tokens_total = count(Figure::kPromptTokens);
    scrape_.generation_tokens_total = count(Figure::kGenerationTokens, Figure::kGenerationTokensOther);
    scrape_.prefix_query_tokens_total = count(Figure::kPrefixQueries, Figure::kPrefixQueriesOther);
    scrape_.prefix_hit_tokens_total = count(Figure::kPrefixHits, Figure::kPrefixHitsOther);
    const auto hits = blocks_to_tokens(Figure::kPrefixHitBlocks), misses = blocks_to_tokens(Figure::kPrefixMissBlocks);
    if (!scrape_.prefix_hit_tokens_total) scrape_.prefix_hit_tokens_total = hits;
    if (!scrape_.prefix_query_tokens_total && hits && misses) scrape_.prefix_query_tokens_total = *hits + *misses;
    scrape_.completed_total = count(Figure::kCompleted);
    scrape_.failed_total = count(Figure::kFailed);
    scrape_.preemptions_total = count(Figure::kPreemptions);
    scrape_.evictions_total = count(Figure::kEvictions);
    scrape_.iterations_total = count(Figure::kIterations);
  }

  [[nodiscard]] std::optional<Histogram> histogram(Figure figure) const {
    const Buckets& buckets = buckets_[static_cast<std::size_t>(figure) - kScalarFigures];
    if (buckets.wrong || buckets.at_most.empty() || !std::isinf(buckets.at_most.rbegin()->first)) return std::nullopt;
    Histogram result;
    result.sum = buckets.sum;
    double before = 0.0;
    for (const auto& [bound, at_most] : buckets.at_most) {
      if (at_most < before) return std::nullopt;
      if (std::isfinite(bound)) result.bounds.push_back(bound);
      result.counts.push_back(static_cast<std::uint64_t>(std::llround(at_most - before)));
      before = at_most;
    }
    // Includes a bound of -Inf.
    if (result.counts.size() != result.bounds.size() + 1) return std::nullopt;
    return result;
  }

  void fill_latencies() {
    scrape_.ttft_s = histogram(Figure::kTtft);
    scrape_.itl_s = histogram(Figure::kItl);
    if (!scrape_.itl_s) scrape_.itl_s = histogram(Figure::kItlOther);
    scrape_.request_s = histogram(Figure::kRequest);
    scrape_.queue_s = histogram(Figure::kQueue);
    scrape_.tpot_s = histogram(Figure::kTpot);
    scrape_.prefill_s = histogram(Figure::kPrefill);
    scrape_.iteration_tokens = histogram(Figure::kIterationTokens);
    scrape_.prompt_length = histogram(Figure::kPromptLength);
    scrape_.output_length = histogram(Figure::kOutputLength);
  }

  const AdapterTable& table_;
  std::unordered_map<std::string_view, std::vector<const AdapterRule*>> rules_;
  std::vector<std::string> names_;  // Names of the histograms' series.
  std::vector<const AdapterRule*> histograms_;
  std::array<Total, kScalarFigures> totals_;
  std::array<Buckets, kHistogramFigures> buckets_;
  Total info_tokens_;
  EngineScrape scrape_;
};

std::optional<HistogramTotals> totals_of(const std::optional<Histogram>& histogram) {
  if (!histogram) return std::nullopt;
  return HistogramTotals{histogram->count(), histogram->sum};
}

const AdapterTable* table_for(const Exposition& exposition) {
  const auto tables = adapter_tables();
  std::size_t best = tables.size();
  for (const MetricSample& sample : exposition.samples)
    for (std::size_t i = 0; i < best; ++i)
      if (sample.name.starts_with(tables[i].prefix)) best = i;
  return best < tables.size() ? &tables[best] : nullptr;
}

}  // namespace

const char* to_string(EngineKind kind) {
  return core::name_of<EngineKind::kPenstock>(kind, {"unknown", "vllm", "sglang", "tensorrt_llm", "triton", "tgi",
                                                     "dynamo", "llama_cpp", "llm_d_epp", "penstock"});
}

EngineKind detect_engine(const Exposition& exposition) {
  const AdapterTable* table = table_for(exposition);
  return table == nullptr ? EngineKind::kUnknown : table->kind;
}

EngineScrape read_scrape(const Exposition& exposition) {
  const AdapterTable* table = table_for(exposition);
  return table == nullptr ? EngineScrape{} : Reader(*table).read(exposition);
}

std::optional<EngineSample> to_sample(const EngineScrape& scrape, core::Instant sampled_at) {
  if (!scrape.queued_requests || !scrape.running_requests) return std::nullopt;
  EngineSample sample;
  sample.sampled_at = sampled_at;
  sample.queued_requests = saturated(*scrape.queued_requests);
  sample.running_requests = saturated(*scrape.running_requests);
  if (scrape.deferred_requests)
    sample.deferred_requests = std::min(saturated(*scrape.deferred_requests), sample.queued_requests);
  if (scrape.open_transfers) sample.open_transfers = saturated(*scrape.open_transfers);
  sample.queued_prefill_tokens = scrape.queued_prefill_tokens;
  sample.inflight_prefill_tokens = scrape.inflight_prefill_tokens;
  sample.scheduled_kv_tokens = scrape.scheduled_kv_tokens;
  sample.queued_kv_tokens = scrape.queued_kv_tokens;
  sample.kv_capacity_tokens = scrape.kv_capacity_tokens;
  sample.kv_used_tokens = scrape.kv_used_tokens;
  if (sample.kv_used_tokens && sample.kv_capacity_tokens)
    sample.kv_used_tokens = std::min(*sample.kv_used_tokens, *sample.kv_capacity_tokens);
  sample.kv_share = scrape.kv_usage;
  sample.prompt_tokens_total = scrape.prompt_tokens_total;
  sample.prefix_hit_tokens_total = scrape.prefix_hit_tokens_total;
  sample.generation_tokens_total = scrape.generation_tokens_total;
  sample.completed_total = scrape.completed_total;
  sample.preemptions_total = scrape.preemptions_total;
  sample.evictions_total = scrape.evictions_total;
  if (scrape.oldest_queued_s)
    sample.oldest_queued_age = core::from_seconds(std::min(*scrape.oldest_queued_s, kAgeMaxS));
  // An empty queue has no age, whatever the engine reports.
  if (sample.queued_requests == 0) sample.oldest_queued_age = core::Duration{};
  sample.batch_merge_efficiency = scrape.batch_merge_efficiency;
  sample.itl_s = totals_of(scrape.itl_s);
  sample.prefill_s = totals_of(scrape.prefill_s);
  sample.ttft_s = totals_of(scrape.ttft_s);
  sample.iterations_total = scrape.iterations_total;
  sample.gpu_utilisation = scrape.gpu_utilisation;
  sample.gpu_memory_usage = scrape.gpu_memory_usage;
  sample.gpu_memory_bandwidth = scrape.gpu_memory_bandwidth;
  return sample;
}

}  // namespace penstock::telemetry
