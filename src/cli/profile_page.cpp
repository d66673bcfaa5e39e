#include "cli/profile_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "capacity/sampled_profile.h"
#include "options/scalars.h"
#include "report/format.h"
#include "report/grid.h"

namespace penstock::cli {
namespace {

constexpr std::uint32_t kLengths[] = {128, 512, 2048, 8192, 32'768};
constexpr std::uint32_t kSequences[] = {1, 4, 16, 64, 256, 1024};

constexpr double kContextTolerance = 1.05;  // As capacity::ProfileRangeCheck.

using Rows = std::vector<std::vector<std::string>>;
constexpr std::size_t kIndent = 2;

std::string count_text(double value) { return report::format_count(static_cast<std::uint64_t>(value)); }

std::vector<std::uint32_t> lengths(const ProfiledReplica& replica) {
  std::vector<std::uint32_t> fitting;
  for (const std::uint32_t length : kLengths)
    if (length <= std::min(replica.limits.kv_tokens, replica.longest_prompt)) fitting.push_back(length);
  return fitting;
}

std::string prompts_table(const ProfiledReplica& replica) {
  Rows rows{{"prompt tokens"}, {"TTFT"}};
  for (const std::uint32_t length : lengths(replica)) {
    rows[0].push_back(report::format_count(length));
    rows[1].push_back(report::format_milliseconds(capacity::lone_ttft_ms(*replica.model, replica.limits, length)));
  }
  return "One prompt on an idle engine\n" + report::aligned(rows, kIndent);
}

std::string decode_table(const ProfiledReplica& replica) {
  Rows rows{{"ITL of sequences"}};
  for (const std::uint32_t length : lengths(replica)) rows[0].push_back(report::format_count(length) + " tokens");
  const double most = replica.measured_sequences > 0.0
                          ? std::min(replica.measured_sequences, replica.limits.max_sequences)
                          : replica.limits.max_sequences;
  for (const std::uint32_t sequences : kSequences) {
    if (sequences > most) break;
    rows.push_back({report::format_count(sequences)});
    for (const std::uint32_t length : lengths(replica)) {
      const bool fits = static_cast<double>(sequences) * length <= replica.limits.kv_tokens;
      rows.back().push_back(fits ? report::format_milliseconds(
                                       capacity::decode_step_ms(*replica.model, replica.limits, sequences, length))
                                 : "");
    }
  }
  return "A step that only decodes, by sequences at once and their length; empty: more than the KV cache holds\n" +
         report::aligned(rows, kIndent);
}

std::string capacity_table(const ProfiledReplica& replica) {
  using report::format_quantity;
  Rows rows{{"replica", "requests/s", "C_in tokens/s", "C_out tokens/s", "decode at once", "p95 TTFT", "p95 ITL"}};
  for (const signals::Role role : {signals::Role::kAggregated, signals::Role::kPrefill, signals::Role::kDecode}) {
    capacity::CapacityOptions options;
    options.role = role;
    const auto found = capacity::token_capacity(*replica.model, replica.traffic, replica.limits, replica.slo, options);
    rows.push_back({signals::to_string(role)});
    if (!found) {
      rows.back().insert(rows.back().end(), {"none", "", "", "", "", ""});
      continue;
    }
    const auto milliseconds = [](double ms) { return ms > 0.0 ? report::format_milliseconds(ms) : std::string{}; };
    rows.back().insert(rows.back().end(),
                       {format_quantity(found->requests_per_s), format_quantity(found->tokens.input_tokens_per_s),
                        format_quantity(found->tokens.output_tokens_per_s),
                        found->concurrency > 0.0 ? format_quantity(found->concurrency) : "",
                        milliseconds(found->ttft_ms), milliseconds(found->itl_ms)});
  }
  const capacity::CapacityOptions margins;
  const std::string legend = fmt::format(
      "  C_in and C_out are the prompt and output tokens per second of that rate; decode at once is the mean number "
      "of\n"
      "  sequences in a step. {} of the TTFT, {} of the ITL and {} of slots and KV cache are used.\n",
      report::format_share(margins.ttft_margin), report::format_share(margins.itl_margin),
      report::format_share(margins.room_margin));
  return fmt::format(
             "What a replica carries within TTFT {} and ITL {}: {} prompt tokens ({} cached), {} output tokens\n",
             options::format_duration(replica.slo.ttft), options::format_duration(replica.slo.itl),
             report::format_count(static_cast<std::uint64_t>(replica.traffic.input_tokens)),
             report::format_share(replica.traffic.cached_share),
             report::format_count(static_cast<std::uint64_t>(replica.traffic.output_tokens))) +
         report::aligned(rows, kIndent) + legend;
}

std::string warnings_text(const ProfiledReplica& replica) {
  std::string text;
  for (const std::string& warning : capacity_warnings(replica)) text += "  warning: " + warning + "\n";
  return text;
}

}  // namespace

std::vector<std::string> capacity_warnings(const ProfiledReplica& replica) {
  std::vector<std::string> warnings;
  if (replica.measured_sequences <= 0.0) return warnings;
  if (replica.sequences_at_least)
    warnings.push_back(
        fmt::format("the measurement ended at {} sequences at once, and the engine may run more: the capacity is a "
                    "lower bound (--max-concurrency)",
                    count_text(replica.measured_sequences)));
  if (replica.kv_tokens_at_least)
    warnings.push_back(
        fmt::format("the measurement ended at {} KV tokens, and the engine may hold more: the capacity "
                    "is a lower bound (--kv-blocks, or --max-concurrency and --max-prompt)",
                    count_text(replica.limits.kv_tokens)));
  capacity::CapacityOptions options;
  const auto found = capacity::token_capacity(*replica.model, replica.traffic, replica.limits, replica.slo, options);
  if (found && found->concurrency > replica.measured_sequences)
    warnings.push_back(
        fmt::format("steps of {} sequences at once are extrapolated, because at most {} were measured "
                    "(--max-concurrency)",
                    count_text(found->concurrency), count_text(replica.measured_sequences)));
  const double context = replica.traffic.input_tokens + replica.traffic.output_tokens;
  if (replica.traffic.input_tokens > replica.longest_prompt)
    warnings.push_back(
        fmt::format("prompts of {} tokens are extrapolated, because the longest that was measured has {} "
                    "(--max-prompt)",
                    count_text(replica.traffic.input_tokens), count_text(replica.longest_prompt)));
  else if (context > replica.longest_prompt * kContextTolerance)
    warnings.push_back(fmt::format("contexts of {} tokens are beyond the longest that was measured, {} (--max-prompt)",
                                   count_text(context), count_text(replica.longest_prompt)));
  return warnings;
}

std::string profile_page(const ProfiledReplica& replica) {
  const auto limit = [](double value, bool is_at_least) {
    return is_at_least ? fmt::format("at least {} (limit of the measurement)", count_text(value)) : count_text(value);
  };
  const std::string engine = fmt::format(
      "{}: KV cache of {} tokens, {} sequences at once, {} tokens an iteration\n\n",
      report::printable(replica.model->description()), limit(replica.limits.kv_tokens, replica.kv_tokens_at_least),
      limit(replica.limits.max_sequences, replica.sequences_at_least), count_text(replica.limits.max_batched_tokens));
  const std::string assumed = replica.assumptions.empty() ? "" : replica.assumptions + "\n\n";
  return engine + assumed + prompts_table(replica) + "\n" + decode_table(replica) + "\n" + capacity_table(replica) +
         warnings_text(replica);
}

}  // namespace penstock::cli
