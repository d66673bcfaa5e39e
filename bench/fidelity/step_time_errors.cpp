#include "fidelity/step_time_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/step_time_models.h"

namespace penstock::fidelity {
namespace {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double high = values[std::min(below + 1, values.size() - 1)];
  return values[below] + (at - static_cast<double>(below)) * (high - values[below]);
}

ErrorSummary summarise(const std::vector<double>& deviations) {
  std::vector<double> sizes;
  for (const double deviation : deviations) sizes.push_back(std::abs(deviation));
  return {deviations.size(), quantile(sizes, 0.5), quantile(sizes, 0.9), quantile(deviations, 0.5)};
}

std::string combination_of(const SiliconRow& row) {
  return fmt::format("{} {} x{}", row.spec.model->name, row.spec.gpu->name, row.spec.tensor_parallel);
}

engine::Roofline calibrated_roofline(const engine::RooflineSpec& spec) {
  return {spec, engine::calibrated_efficiency(spec.backend, spec.gpu->name, spec.precision, *spec.model, spec.release)};
}

template <class Keep>
std::vector<SiliconRow> rows_where(std::span<const SiliconRow> rows, const Keep& keep) {
  std::vector<SiliconRow> kept;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(kept), keep);
  return kept;
}

std::string percent(double share) { return fmt::format("{:.1f}", 100.0 * share); }

std::string pair(const ErrorSummary& errors) {
  return fmt::format("{} / {}", percent(errors.median), percent(errors.p90));
}

std::string figures_row(std::string_view name, const FidelityFigures& figures) {
  return fmt::format("| {} | {} | {} | {} | {} |\n", name, figures.tpot.rows, pair(figures.tpot),
                     pair(figures.throughput), pair(figures.ttft));
}

constexpr const char* kFiguresHead = "| {} | points | TPOT | throughput | TTFT |\n|---|---:|---:|---:|---:|\n";

template <class Name>
std::string figures_table(std::string_view head, std::span<const SiliconRow> rows, const Name& name) {
  std::map<std::string, std::vector<SiliconRow>> groups;
  for (const SiliconRow& row : rows)
    if (is_covered(row)) groups[name(row)].push_back(row);
  std::string text = fmt::format(fmt::runtime(kFiguresHead), head);
  for (const auto& [group, members] : groups) text += figures_row(group, aggregated_fidelity(members));
  return text + figures_row("**all**", aggregated_fidelity(rows));
}

std::string unseen_section(std::span<const SiliconRow> dense, std::span<const SiliconRow> mixtures) {
  const UnseenFidelity unseen = unseen_fidelity(dense);
  std::string text =
      "### Combinations that the fit has not seen\n\n"
      "One combination of model, GPU and GPUs per replica at a time is left out of the fit and then estimated.\n\n"
      "| combination | points | TPOT | bias |\n|---|---:|---:|---:|\n";
  const auto line = [&](std::string_view name, const ErrorSummary& errors) {
    text += fmt::format("| {} | {} | {} | {:+.1f} |\n", name, errors.rows, pair(errors), 100.0 * errors.bias);
  };
  for (const UnseenCombination& each : unseen.combinations) line(each.name, each.tpot);
  line("**all dense**", unseen.total);
  if (mixtures.empty()) return text + "\n";
  const UnseenFidelity others = unseen_fidelity(mixtures);
  line("**all mixtures**", others.total);
  line("**disaggregated decode of mixtures**", others.decode);
  return text + "\n";
}

// Rows that state the batch of a decode worker and whose weights fit its GPUs.
std::string disaggregated_section(std::span<const SiliconRow> rows) {
  std::vector<SiliconRow> all, covered;
  std::size_t stated = 0;
  for (const SiliconRow& row : rows) {
    if (row.is_aggregated()) continue;
    all.push_back(row);
    if (row.concurrency > 0 && row.spec.model != nullptr) ++stated;
    if (is_covered(row)) covered.push_back(row);
  }
  std::string text = fmt::format(
      "### Disaggregated\n\n{} points; {} state the batch of a decode worker, of those {} with weights that fit its "
      "GPUs. "
      "TPOT of the decode side alone.\n\n| decode workers | points | TPOT | bias |\n|---|---:|---:|---:|\n",
      all.size(), stated, covered.size());
  const auto line = [&](std::string_view name, const auto& keep) {
    const ErrorSummary errors = decode_fidelity(rows_where(covered, keep));
    text += fmt::format("| {} | {} | {} | {:+.1f} |\n", name, errors.rows, pair(errors), 100.0 * errors.bias);
  };
  line("the half that was not fitted", [](const SiliconRow& row) { return !in_calibration_half(row); });
  line("of these, mixtures",
       [](const SiliconRow& row) { return !in_calibration_half(row) && row.spec.model->is_mixture(); });
  line("the fitted half, for comparison", in_calibration_half);
  return text + "\n";
}

// Points that were measured several times with results that differ: no estimate can equal all of them.
std::string repeated_section(std::span<const SiliconRow> rows) {
  std::map<std::string, std::vector<const SiliconRow*>> points;
  for (const SiliconRow& row : rows)
    if (row.is_aggregated() && is_covered(row)) points[row.key() + "|" + row.spec.release].push_back(&row);
  std::string text =
      "### Repeated points\n\nPoints that are equal in every column, the release included, with results that differ by "
      "more than 1 %: no estimate from these columns can be right. The ratio is that of the largest result to the "
      "least.\n\n"
      "| | points | median ratio | above 1.2 | above 1.5 | largest |\n|---|---:|---:|---:|---:|---:|\n";
  const auto line = [&](std::string_view name, bool mixture, double SiliconRow::*figure) {
    std::vector<double> ratios;
    for (const auto& [key, members] : points) {
      if (members.front()->spec.model->is_mixture() != mixture) continue;
      std::vector<double> values;
      for (const SiliconRow* row : members) values.push_back(row->*figure);
      const double ratio = quantile(values, 1.0) / quantile(values, 0.0);
      if (ratio > 1.01) ratios.push_back(ratio);
    }
    if (ratios.empty()) return;
    const auto above = [&](double bound) {
      return std::count_if(ratios.begin(), ratios.end(), [&](double ratio) { return ratio > bound; });
    };
    text += fmt::format("| {} | {} | {:.2f} | {} | {} | {:.2f} |\n", name, ratios.size(), quantile(ratios, 0.5),
                        above(1.2), above(1.5), quantile(ratios, 1.0));
  };
  line("dense, TTFT", false, &SiliconRow::ttft_ms);
  line("mixtures of experts, TPOT", true, &SiliconRow::tpot_ms);
  line("mixtures of experts, TTFT", true, &SiliconRow::ttft_ms);
  return text + "\n";
}

std::string engine_name(const SiliconRow& row) {
  return fmt::format("{} {} {}", name_of(row.spec.backend), row.spec.gpu->name, name_of(row.spec.precision));
}

std::string uncovered_section(std::span<const SiliconRow> rows) {
  std::size_t unknown = 0, too_large = 0, undivided = 0;
  for (const SiliconRow& row : rows) {
    if (row.spec.model == nullptr) ++unknown;
    if (row.spec.model == nullptr || !row.is_aggregated() || is_covered(row)) continue;
    ++(row.spec.divides_heads() ? too_large : undivided);
  }
  return fmt::format(
      "Not covered: {} points of models that the catalogue lacks, {} aggregated points whose weights and one "
      "request do not fit the GPUs that they state, {} with tensor parallelism that does not divide the attention "
      "heads.\n",
      unknown, too_large, undivided);
}

std::string report_of(std::span<const SiliconRow> rows) {
  const auto is_dense = [](const SiliconRow& row) {
    return row.spec.model != nullptr && !row.spec.model->is_mixture();
  };
  const auto is_mixture = [](const SiliconRow& row) {
    return row.spec.model != nullptr && row.spec.model->is_mixture();
  };
  const auto held_out = [](const SiliconRow& row) { return row.is_aggregated() && !in_calibration_half(row); };
  const auto fitted = [](const SiliconRow& row) { return row.is_aggregated() && in_calibration_half(row); };
  const auto has_ranks = [](const SiliconRow& row) { return row.spec.attention_ranks > 1; };
  const auto dense = rows_where(rows, is_dense), mixtures = rows_where(rows, is_mixture);
  const auto dense_held = rows_where(dense, held_out), mixtures_held = rows_where(mixtures, held_out);

  std::string text =
      "\n## Against measured engines\n\n"
      "Relative error of the closed form, in %, as median / p90. The figures were fitted to one half of the points, "
      "chosen by "
      "a hash of the operating point; unless stated otherwise, the other half is shown.\n\n";
  text += "### Dense models, aggregated\n\n" + figures_table("backend, GPU, precision", dense_held, engine_name);
  text += figures_row("the fitted half, for comparison", aggregated_fidelity(rows_where(dense, fitted))) + "\n";
  text +=
      "### Mixtures of experts, aggregated\n\n" +
      figures_table("model", mixtures_held, [](const SiliconRow& row) { return std::string{row.spec.model->name}; }) +
      figures_row("the fitted half, for comparison", aggregated_fidelity(rows_where(mixtures, fitted))) +
      figures_row("attention data parallelism", aggregated_fidelity(rows_where(mixtures_held, has_ranks))) + "\n";
  text += unseen_section(dense, mixtures);
  text += disaggregated_section(rows) + repeated_section(rows);
  return text + uncovered_section(rows);
}

}  // namespace

FidelityFigures aggregated_fidelity(std::span<const SiliconRow> rows) {
  std::vector<double> tpot, ttft, throughput;
  for (const SiliconRow& row : rows) {
    if (!row.is_aggregated() || !is_covered(row)) continue;
    const ServingEstimate estimate = aggregated_serving(calibrated_roofline(row.spec), calibration_point(row).at);
    const double tokens = static_cast<double>(row.concurrency) * row.output_tokens;
    const double measured_per_s = 1e3 * tokens / (row.ttft_ms + row.output_tokens * row.tpot_ms);
    tpot.push_back(estimate.tpot_ms / row.tpot_ms - 1.0);
    ttft.push_back(estimate.ttft_ms / row.ttft_ms - 1.0);
    throughput.push_back(estimate.output_tokens_per_s / measured_per_s - 1.0);
  }
  return {summarise(tpot), summarise(ttft), summarise(throughput)};
}

ErrorSummary decode_fidelity(std::span<const SiliconRow> rows) {
  std::vector<double> deviations;
  for (const SiliconRow& row : rows)
    if (!row.is_aggregated() && is_covered(row))
      deviations.push_back(estimated_tpot_ms(calibrated_roofline(row.spec), calibration_point(row)) / row.tpot_ms -
                           1.0);
  return summarise(deviations);
}

UnseenFidelity unseen_fidelity(std::span<const SiliconRow> rows, const CalibrationOptions& options) {
  std::map<std::string, std::vector<const SiliconRow*>> combinations;
  for (const SiliconRow& row : rows)
    if (is_covered(row)) combinations[combination_of(row)].push_back(&row);
  UnseenFidelity result;
  std::vector<double> all, decode;
  for (const auto& [name, members] : combinations) {
    std::vector<CalibrationPoint> others;
    for (const SiliconRow& row : rows)
      if (is_covered(row) && in_calibration_half(row) && combination_of(row) != name)
        others.push_back(calibration_point(row));
    const Calibration calibration = fit_calibration(others, options);
    std::vector<double> deviations;
    for (const SiliconRow* row : members) {
      const engine::Roofline roofline{row->spec, efficiency_by(calibration, row->spec)};
      const double deviation = estimated_tpot_ms(roofline, calibration_point(*row)) / row->tpot_ms - 1.0;
      (row->is_aggregated() ? deviations : decode).push_back(deviation);
    }
    if (!deviations.empty()) result.combinations.push_back({name, summarise(deviations)});
    all.insert(all.end(), deviations.begin(), deviations.end());
  }
  result.total = summarise(all);
  result.decode = summarise(decode);
  return result;
}

Calibration calibrate(std::span<const SiliconRow> rows) {
  std::vector<CalibrationPoint> points;
  for (const SiliconRow& row : rows)
    if (is_covered(row) && in_calibration_half(row)) points.push_back(calibration_point(row));
  return fit_calibration(points);
}

core::Result<std::vector<SiliconRow>> load_silicon(std::string_view csv_path) {
  const std::string path{csv_path};
  const auto text = engine::read_file(path, kSiliconBytesMax);
  if (!text) return tl::make_unexpected(text.error());
  return read_silicon(*text, path);
}

core::Result<std::string> silicon_fidelity_markdown(std::string_view csv_path) {
  const auto rows = load_silicon(csv_path);
  if (!rows) return tl::make_unexpected(rows.error());
  return report_of(*rows);
}

core::Result<std::string> calibration_table(std::string_view csv_path) {
  const auto rows = load_silicon(csv_path);
  if (!rows) return tl::make_unexpected(rows.error());
  return render_calibration(calibrate(*rows));
}

}  // namespace penstock::fidelity
