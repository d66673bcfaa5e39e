// Writes the page on how far the simulation is from the replay of another project and from measured engines:
// fidelity [--trace FILE --peer FILE | --keep-peer PAGE] [--silicon FILE] [--out FILE] [--calibrate]
// --keep-peer takes the comparison with the other project from an earlier page instead of running it.
// --calibrate prints the table fitted to --silicon instead: src/engine/roofline_calibration.inc.
#include "cli/commands.h"
#include "cli/console.h"
#include "engine/step_time_models.h"
#include "fidelity/peer_runs.h"
#include "fidelity/step_time_errors.h"
#include "flags.h"
#include "replay/setup.h"
#include "report/write_file.h"
#include "workload/reader.h"
#include "workload/synthetic.h"

namespace penstock::fidelity {
namespace {

constexpr std::string_view kIntroduction =
    "# Fidelity\n\n"
    "Written by `make fidelity`. Two questions: does the simulated fleet do what "
    "another\n"
    "simulator of the same engine does, and does the step-time model take as long as real engines on real GPUs do?\n";

constexpr std::string_view kPeer =
    "\n## Against NVIDIA Dynamo's replay\n\n"
    "Static fleets, `polynomial` timing, SLO TTFT 2 s and mean ITL 50 ms. Dynamo: `ai-dynamo` 1.6.1 from PyPI, its "
    "Python interface\n"
    "`dynamo.replay`, run by `bench/dynamo_replay.py`; its SLO attainment is counted from its own list of requests. "
    "Works:\n\n"
    "- `mooncake`: Mooncake conversation (12,031 requests in 0.98 h, Apache-2.0), 2,000 blocks of 512 tokens per "
    "replica.\n"
    "- `saturated`: 100,000 requests of 1,000 and 250 tokens, one each millisecond, 16,384 blocks of 64 tokens per "
    "replica. More\n"
    "  than the fleet can compute, thus requests wait for minutes.\n\n";

constexpr std::string_view kPeerNotes =
    "\nRemaining differences:\n\n"
    "- Under round robin, where no router has a choice, both engines agree but for rounding: admission, chunked "
    "prefill,\n"
    "  prefix cache, preemption and timing are the same.\n"
    "- With the KV router, replicas that cost the same are told apart by a random draw in both, from different random\n"
    "  streams. One request that goes elsewhere changes what every cache holds from then on. Dynamo's own figures "
    "differ\n"
    "  from one run to the next by about as much as ours differ from them.\n";

constexpr std::string_view kSiliconNotes =
    "\nHow to read it:\n\n"
    "- Expect the errors of the unseen combinations for a model or GPU that is not in the measurements, and those of "
    "the\n"
    "  held-out half for one that is. Only the figures were fitted to one half; the form of the model was chosen while "
    "the\n"
    "  errors of both could be seen, so the held-out errors are somewhat too kind.\n"
    "- The replay simulates steps and takes the queue from the simulation. The closed form's TTFT depends on the load\n"
    "  generator: on the lengths of its requests, and on the share of requests that wait in the burst at its start. It "
    "is used\n"
    "  nowhere else.\n"
    "- The columns do not tell the speculative decoding of a measurement, how experts are placed, or the lengths that "
    "were\n"
    "  drawn. Repeated points show what that is worth: of DeepSeek-V3 with TensorRT-LLM 1.1.0rc2.post2, 13 points were "
    "measured\n"
    "  with TPOT that differs by half or more. Medians of two releases at one point of a mixture differ from their "
    "mean "
    "by 6.7 %\n"
    "  (p90 24.6 %) in TPOT and 12.4 % (56.4 %) in TTFT, hence the release is part of the model.\n"
    "- TTFT of mixtures with SGLang is off by 40 % in the median. Constants fitted to one release alone leave 38 % for "
    "0.5.9.\n"
    "- Disaggregated points state the tensor parallelism of a decode worker but not its attention ranks. Of the 81 "
    "whose weights\n"
    "  do not fit, the source names 4 to 32 ranks for 79; they are not estimated.\n"
    "- How the calibration works, with formulae: [step-time.md](step-time.md).\n";

core::Result<std::string> peer_section(const std::string& trace, const std::string& peer) {
  const auto text = engine::read_file(peer, std::size_t{1} << 20);
  if (!text) return tl::make_unexpected(text.error());
  const auto runs = parse_peer_runs(peer, *text);
  if (!runs) return tl::make_unexpected(runs.error());
  auto mooncake = workload::read_workload(trace, {});
  if (!mooncake) return tl::make_unexpected(mooncake.error());
  const auto uniform = workload::parse_synthetic("synthetic:requests=100000,rate=1000,cv=0,input=1000,output=250");
  if (!uniform) return tl::make_unexpected(uniform.error());
  auto saturated = workload::make_synthetic(*uniform, 1);
  if (!saturated) return tl::make_unexpected(saturated.error());
  const auto options = replay::make_run_options({});
  if (!options) return tl::make_unexpected(options.error());
  simulation::RunOptions small_blocks = *options;  // Dynamo's defaults.
  small_blocks.pools.front().engine.block_tokens = 64;
  small_blocks.pools.front().engine.kv_blocks = 16'384;
  const auto table = compare_with_peer(
      {{"mooncake", *std::move(mooncake), *options}, {"saturated", *std::move(saturated), small_blocks}}, *runs);
  if (!table) return tl::make_unexpected(table.error());
  return std::string{kPeer} + *table + std::string{kPeerNotes};
}

core::Result<std::string> page(const bench::Flags& flags) {
  const std::string silicon = flags.value_of("--silicon");
  if (flags.has("--calibrate")) return calibration_table(silicon);
  std::string text{kIntroduction};
  if (flags.has("--peer")) {
    auto section = peer_section(flags.value_of("--trace"), flags.value_of("--peer"));
    if (!section) return section;
    text += *section;
  }
  if (flags.has("--keep-peer")) {
    const std::string path = flags.value_of("--keep-peer");
    const auto earlier = engine::read_file(path, std::size_t{1} << 20);
    if (!earlier) return tl::make_unexpected(earlier.error());
    const auto section = section_of(*earlier, path, "Against NVIDIA Dynamo's replay");
    if (!section) return section;
    text += *section;
  }
  if (!silicon.empty()) {
    auto section = silicon_fidelity_markdown(silicon);
    if (!section) return section;
    text += *section + std::string{kSiliconNotes};
  }
  return text;
}

core::Result<void> check(const bench::Flags& flags) {
  if (flags.has("--peer") != flags.has("--trace"))
    return core::invalid_input("--peer", "needs --trace, and --trace needs --peer");
  if (flags.has("--keep-peer") && (flags.has("--peer") || !flags.has("--silicon")))
    return core::invalid_input("--keep-peer", "goes with --silicon and without --peer");
  if (flags.has("--calibrate") && !flags.has("--silicon")) return core::invalid_input("--calibrate", "needs --silicon");
  if (!flags.has("--peer") && !flags.has("--silicon"))
    return core::invalid_input("--silicon", "is required without --trace and --peer");
  return {};
}

int run(std::span<char* const> words) {
  const auto flags =
      bench::Flags::parse(words, {"--trace", "--peer", "--keep-peer", "--silicon", "--out"}, {"--calibrate"});
  if (!flags) return cli::report_error(flags.error());
  if (const auto good = check(*flags); !good) return cli::report_error(good.error());
  const auto text = page(*flags);
  if (!text) return cli::report_input_error(text.error());
  if (!flags->has("--out")) return cli::print(*text);
  const auto written = report::write_file(flags->value_of("--out"), *text);
  return written ? cli::kGood : cli::report_error(written.error());
}

}  // namespace
}  // namespace penstock::fidelity

int main(int count, char** words) { return penstock::fidelity::run({words + 1, words + count}); }
