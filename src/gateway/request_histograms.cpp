#include "gateway/request_histograms.h"

#include <algorithm>
#include <utility>

namespace penstock::gateway {

RequestHistograms::Row* RequestHistograms::row_of(std::string_view model, std::string_view traffic_class) {
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const auto& row) {
    return row->model == model && row->traffic_class == traffic_class;
  });
  if (found != rows_.end()) return found->get();
  if (rows_.size() == kRowsMax) return nullptr;
  const auto requests = [] { return telemetry::Histogram{telemetry::request_bounds_s()}; };
  rows_.push_back(std::make_unique<Row>(Row{std::string{model}, std::string{traffic_class}, requests(),
                                            telemetry::Histogram{telemetry::ttft_bounds_s()},
                                            telemetry::Histogram{telemetry::itl_bounds_s()}, requests()}));
  return rows_.back().get();
}

void RequestHistograms::add(const RequestTimes& times) {
  const std::scoped_lock lock{mutex_};
  Row* const row = row_of(times.model, times.traffic_class);
  if (row == nullptr) return;
  row->queue.add(core::to_seconds(times.queue));
  if (times.ttft) row->ttft.add(core::to_seconds(*times.ttft));
  if (times.tpot) row->tpot.add(core::to_seconds(*times.tpot));
  if (times.e2e) row->e2e.add(core::to_seconds(*times.e2e));
}

void RequestHistograms::write(telemetry::ExpositionWriter& text) const {
  struct Family {
    const char *name, *help;
    telemetry::Histogram Row::*values;
  };
  constexpr Family kFamilies[] = {
      {"penstock_request_queue_seconds", "time from the arrival of a request to its admission", &Row::queue},
      {"penstock_request_ttft_seconds", "TTFT: time to first token of streams", &Row::ttft},
      {"penstock_request_tpot_seconds", "TPOT: mean time of each token of a stream after its first one", &Row::tpot},
      {"penstock_request_e2e_seconds", "time from the arrival of a request to the end of its whole answer", &Row::e2e},
  };
  const std::scoped_lock lock{mutex_};
  for (const Family& family : kFamilies) {
    text.family(family.name, "histogram", family.help);
    for (const auto& row : rows_)
      text.samples(telemetry::format_labels({{"model", row->model}, {"class", row->traffic_class}}),
                   (*row).*family.values);
  }
}

}  // namespace penstock::gateway
