#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/format.h"
#include "report/ranking.h"

namespace penstock::report {

using decision::RunResult;

namespace {

constexpr std::size_t kGap = 2;            // blanks between columns
constexpr std::size_t kWidthMax = 140;     // of a line of the table
constexpr std::size_t kNameWidthMax = 32;  // of a policy's name; the JSON has it in full
constexpr std::size_t kNameWidthMin = 8;   // where the figures need the rest of the line

// The first `width` code points of printable text, the last of them an ellipsis if there are more.
std::string cut(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  std::size_t end = 0, seen = 0;
  for (; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U && ++seen == width) break;
  return text.substr(0, end) + "…";
}

std::string name_of(const RankedResult& ranked) { return cut(printable(ranked.label), kNameWidthMax); }

// One line of prose as lines that fit, the second and later ones indented. A word that is too long is cut.
std::string paragraph(const std::string& text) {
  std::string lines;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = cut(text.substr(begin, end - begin), kWidthMax - kGap);
    begin = end + 1;
    const std::size_t width = display_width(word);
    if (column > 0 && column + 1 + width > kWidthMax) {
      lines += "\n" + std::string(kGap, ' ');
      column = kGap;
    } else if (column > 0) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += width;
  }
  return lines + "\n";
}

struct Column {
  std::string group, name;  // two lines of heading
  bool left = false;
};

class Grid {
 public:
  Grid(std::vector<Column> columns, const TableStyle& style, bool best_first = true)
      : columns_(std::move(columns)), style_(style), best_first_(best_first) {
    for (const Column& column : columns_)
      widths_.push_back(std::max(display_width(column.name), display_width(column.group)));
  }

  void add(std::vector<std::string> cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], display_width(cells[i]));
    rows_.push_back(std::move(cells));
  }

  // Where the best row is first, it stands out. When the figures are wide, the names in the first column are cut.
  [[nodiscard]] std::string text() {
    std::size_t width = kGap * (columns_.size() - 1);
    for (const std::size_t column : widths_) width += column;
    const std::size_t excess = width > kWidthMax ? width - kWidthMax : 0;
    if (excess > 0) widths_[0] = std::max(kNameWidthMin, widths_[0] - std::min(widths_[0], excess));
    for (std::vector<std::string>& row : rows_) row[0] = cut(row[0], widths_[0]);
    std::string text = heading([](const Column& column) { return column.group; });
    text += heading([](const Column& column) { return column.name; });
    for (std::size_t row = 0; row < rows_.size(); ++row)
      text += painted(line(rows_[row]), row == 0 && best_first_ ? "\033[1m" : "");
    return text;
  }

 private:
  template <class Text>
  std::string heading(const Text& text_of) const {
    std::vector<std::string> cells;
    for (const Column& column : columns_) cells.push_back(text_of(column));
    return painted(line(cells), "\033[2m");
  }

  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string blanks(widths_[i] - display_width(cells[i]), ' ');
      if (i > 0) text.append(kGap, ' ');
      text += columns_[i].left ? cells[i] + blanks : blanks + cells[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  [[nodiscard]] std::string painted(const std::string& text, std::string_view code) const {
    return style_.colour && !code.empty() ? fmt::format("{}{}\033[0m\n", code, text) : text + "\n";
  }

  std::vector<Column> columns_;
  const TableStyle& style_;
  bool best_first_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

std::string latency(const core::Summary& summary, double value) {
  return summary.max > 0.0 ? format_milliseconds(value) : "–";
}

std::string bare_milliseconds(const core::Summary& summary, double value) {
  return summary.max > 0.0 ? format_quantity(value) : "–";
}

std::string short_count(std::uint64_t count) {
  return count < 100'000 ? format_count(count) : format_quantity(static_cast<double>(count));
}

std::string fleet(const RunResult& result) {
  return result.peak_replicas <= result.replicas && result.scaling_actions == 0
             ? fmt::format("{}", result.replicas)
             : fmt::format("{}→{} ~{}", result.replicas, result.peak_replicas, format_quantity(result.mean_replicas));
}

std::string policies(const Report& report, const TableStyle& style) {
  Grid grid{{{"", "policy", true},
             {"", "replicas", true},
             {"SLO at-", "tainment"},
             {"TTFT", "p50"},
             {"", "p95"},
             {"", "p99"},
             {"ITL ms", "p50"},
             {"", "p95"},
             {"good-", "put/s"},
             {"GPU", "hours"},
             {"", "USD"},
             {"cache", "hits"},
             {"pre-", "empted"},
             {"", "failed"},
             {"", "actions"},
             {"speed", "req/s"}},
            style};
  for (const RankedResult& ranked : rank(report.results)) {
    const RunResult& r = *ranked.result;
    grid.add({name_of(ranked), fleet(r), format_share(r.slo_attainment), latency(r.ttft_ms, r.ttft_ms.p50),
              latency(r.ttft_ms, r.ttft_ms.p95), latency(r.ttft_ms, r.ttft_ms.p99),
              bare_milliseconds(r.itl_ms, r.itl_ms.p50), bare_milliseconds(r.itl_ms, r.itl_ms.p95),
              format_quantity(r.goodput_rps), format_quantity(r.gpu_hours), format_quantity(r.cost),
              format_share(r.prefix_hit_ratio), short_count(r.preemptions), short_count(r.failed),
              short_count(r.scaling_actions), format_quantity(r.simulated_requests_per_s)});
  }
  return grid.text();
}

std::string frontier(const Report& report, const TableStyle& style) {
  Grid grid{{{"static", "fleet", true},
             {"SLO", "attainment"},
             {"TTFT", "p95"},
             {"", "p99"},
             {"ITL ms", "p95"},
             {"good-", "put/s"},
             {"GPU", "hours"},
             {"", "USD"},
             {"", "failed"}},
            style};
  for (const RankedResult& ranked : rank(report.frontier)) {
    const RunResult& r = *ranked.result;
    grid.add({name_of(ranked), format_share(r.slo_attainment), latency(r.ttft_ms, r.ttft_ms.p95),
              latency(r.ttft_ms, r.ttft_ms.p99), bare_milliseconds(r.itl_ms, r.itl_ms.p95),
              format_quantity(r.goodput_rps), format_quantity(r.gpu_hours), format_quantity(r.cost),
              short_count(r.failed)});
  }
  return grid.text();
}

// One row for each target and policy.
std::string targets(const Report& report, const TableStyle& style) {
  Grid grid{{{"", "segment", true},
             {"", "policy", true},
             {"TTFT", "limit"},
             {"ITL", "limit"},
             {"", "requests"},
             {"", "goal"},
             {"SLO", "attainment"},
             {"TTFT", "met"},
             {"ITL", "met"},
             {"", "", true}},
            style,
            false};
  const std::vector<RankedResult> ranked = rank(report.results);
  for (std::size_t i = 0; i <= signals::kSegmentsMax; ++i) {
    for (const RankedResult& each : ranked) {
      if (each.result->targets.size() <= i) continue;
      const decision::TargetResult& target = each.result->targets[i];
      const auto kept = [&](std::uint64_t met) {
        if (target.requests == 0) return std::string{"–"};
        return format_share(static_cast<double>(met) / static_cast<double>(target.requests));
      };
      grid.add({cut(printable(target.name), kNameWidthMax), name_of(each),
                format_seconds(core::to_seconds(target.target.ttft)),
                format_seconds(core::to_seconds(target.target.itl)), short_count(target.requests),
                format_share(target.goal), kept(target.met), kept(target.ttft_met), kept(target.itl_met),
                target.attainment() < target.goal ? "missed" : ""});
    }
  }
  return grid.text();
}

bool has_segments(const Report& report) {
  return std::any_of(report.results.begin(), report.results.end(),
                     [](const RunResult& result) { return result.targets.size() > 1; });
}

std::string facts(const RunInfo& info, bool segments) {
  std::string replayed = fmt::format("{}: {} requests in {}", printable(info.workload), format_count(info.requests),
                                     format_seconds(core::to_seconds(info.duration)));
  if (info.rate_scale != 1.0) replayed += fmt::format(" at x{:.4g} the recorded rate", info.rate_scale);
  replayed += fmt::format("; SLO: TTFT {} and ITL {} per request", format_seconds(core::to_seconds(info.slo.ttft)),
                          format_seconds(core::to_seconds(info.slo.itl)));
  if (segments) replayed += ", or the target of its segment";
  std::string fleet;
  if (!info.engine.empty()) fleet += fmt::format("engine {}; ", printable(info.engine));
  fleet += fmt::format("{} KV blocks of {} tokens per replica; ", format_count(info.kv_blocks), info.block_tokens);
  if (!info.router.empty()) fleet += fmt::format("router {}; ", printable(info.router));
  fleet += fmt::format("start-up {}; seed {}", format_seconds(core::to_seconds(info.start_up)), info.seed);
  return paragraph(replayed) + paragraph(fleet);
}

std::string failures(const RankedResult& ranked) {
  std::string text;
  for (const auto& failure : ranked.result->failures)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_count(failure.requests), printable(failure.reason));
  return name_of(ranked) + ": failed: " + text;
}

std::string waits(const RankedResult& ranked) {
  const RunResult& result = *ranked.result;
  return fmt::format("{}: {} requests waited at the gateway, TTFT included: p50 {}, p95 {}, p99 {}", name_of(ranked),
                     format_count(result.waited), format_milliseconds(result.queue_wait_ms.p50),
                     format_milliseconds(result.queue_wait_ms.p95), format_milliseconds(result.queue_wait_ms.p99));
}

constexpr std::size_t kTenantsShown = 10;

// The tenants with most tokens.
std::string tenants(const Report& report, const TableStyle& style) {
  Grid grid{{{"", "policy", true},
             {"", "tenant", true},
             {"", "requests"},
             {"", "refused"},
             {"prompt", "tokens"},
             {"cached", "tokens"},
             {"output", "tokens"},
             {"budget", "used"},
             {"token", "cost"}},
            style};
  for (const RankedResult& ranked : rank(report.results)) {
    std::vector<decision::TenantResult> shown = ranked.result->tenants;
    std::stable_sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) {
      return a.prompt_tokens + a.output_tokens > b.prompt_tokens + b.output_tokens;
    });
    if (shown.size() > kTenantsShown) shown.resize(kTenantsShown);
    for (const decision::TenantResult& tenant : shown)
      grid.add({name_of(ranked), printable(tenant.name), short_count(tenant.requests), short_count(tenant.refused),
                short_count(tenant.prompt_tokens), short_count(tenant.cached_tokens), short_count(tenant.output_tokens),
                tenant.budget_share ? format_share(*tenant.budget_share) : "–", format_quantity(tenant.token_cost)});
  }
  return grid.text();
}

// A single tenant without price and budget has nothing that the policies' table lacks.
bool has_tenants(const Report& report) {
  return std::any_of(report.results.begin(), report.results.end(), [](const RunResult& result) {
    return result.tenants.size() > 1 ||
           std::any_of(result.tenants.begin(), result.tenants.end(), [](const decision::TenantResult& tenant) {
             return tenant.budget_share || tenant.token_cost > 0.0;
           });
  });
}

std::string remarks(const Report& report) {
  std::string text;
  for (const RankedResult& ranked : rank(report.results))
    if (ranked.result->waited > 0) text += paragraph(waits(ranked));
  for (const RankedResult& ranked : rank(report.results))
    if (!ranked.result->failures.empty()) text += paragraph(failures(ranked));
  if (report.info.skipped_rows > 0)
    text += fmt::format("skipped: {} invalid {} of the trace\n", format_count(report.info.skipped_rows),
                        report.info.skipped_rows == 1 ? "row" : "rows");
  for (const std::string& note : report.info.notes) text += paragraph(printable(note));
  return text;
}

}  // namespace

std::string render_table(const Report& report, const TableStyle& style) {
  std::string text = facts(report.info, has_segments(report));
  if (!report.results.empty()) text += "\n" + policies(report, style);
  if (has_segments(report)) text += "\n" + targets(report, style);
  if (has_tenants(report)) text += "\n" + tenants(report, style);
  if (!report.frontier.empty()) text += "\n" + frontier(report, style);
  if (const std::string lines = remarks(report); !lines.empty()) text += "\n" + lines;
  return text + "\n" + paragraph(printable(headline(report)));
}

}  // namespace penstock::report
