// `penstock fidelity`: how far the simulation is from other simulations and from measured engines.
#include <fmt/format.h>

#include "capacity/fidelity.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/replay_setup.h"
#include "engine/step_time_models.h"
#include "report/write_file.h"
#include "simulation/fidelity.h"
#include "workload/reader.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kIntroduction =
    "# Fidelity\n\n"
    "Written by `make fidelity`, which runs `penstock fidelity`. Two questions: does the simulated fleet do what "
    "another\n"
    "simulator of the same engine does, and does the step-time model take as long as real engines on real GPUs do?\n";

constexpr std::string_view kPeer =
    "\n## Against NVIDIA Dynamo's replay\n\n"
    "Mooncake conversation (12,031 requests in 0.98 h, Apache-2.0), static fleets, `polynomial` timing, blocks of 512 "
    "tokens,\n"
    "2,000 blocks a replica, SLO TTFT 2 s and mean ITL 50 ms. Dynamo: `ai-dynamo` 1.3.1 from PyPI, `python -m "
    "dynamo.replay`,\n"
    "run by `bench/dynamo_replay.py`; its share within the SLO is counted from its own list of requests.\n\n";

constexpr std::string_view kPeerNotes =
    "\nWhat is left:\n\n"
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
    "- The replay simulates steps and takes the queue from the simulation; the closed form's TTFT, which guesses the "
    "queue\n"
    "  of a load generator's clients, is the weakest figure here and is used nowhere else.\n"
    "- Mixtures of experts depend on how evenly experts are chosen and on kernels that change between versions; two "
    "of\n"
    "  seven models are off by more than 10 % in the median.\n"
    "- How the calibration works, with formulae: [step-time.md](step-time.md).\n";

Usage usage() {
  Usage usage;
  usage.command = "fidelity";
  usage.summary = "Compares the simulation with the replay of another project and with measured engines, in Markdown.";
  usage.flags = {
      {"Input", "--trace", "FILE", "Mooncake conversation, for the comparison with the peer", {}},
      {"Input", "--peer", "FILE", "the peer's runs of it, as bench/dynamo_replay.py writes them", {}},
      {"Input", "--silicon", "FILE", "CSV of measured engines", {}},
      {"Output", "--out", "FILE", "write the page to this file instead of standard output", {}},
      {"Output",
       "--calibrate",
       {},
       "print the calibration table fitted to --silicon instead: roofline_calibration.inc",
       {}},
  };
  usage.notes = "Example:\n  penstock fidelity --silicon silicon_measurements.csv --out fidelity.md\n";
  return usage;
}

core::Result<std::string> peer_section(const std::string& trace, const std::string& peer) {
  const auto text = engine::read_file(peer, std::size_t{1} << 20);
  if (!text) return tl::make_unexpected(text.error());
  const auto runs = simulation::parse_peer_runs(peer, *text);
  if (!runs) return tl::make_unexpected(runs.error());
  const auto workload = workload::read_workload(trace, {});
  if (!workload) return tl::make_unexpected(workload.error());
  const auto options = make_run_options({});
  if (!options) return tl::make_unexpected(options.error());
  const auto table = simulation::compare_with_peer(*workload, *options, *runs);
  if (!table) return tl::make_unexpected(table.error());
  return std::string{kPeer} + *table + std::string{kPeerNotes};
}

core::Result<std::string> page(const Parsed& parsed) {
  const std::string silicon = parsed.value_of("--silicon");
  if (parsed.has("--calibrate")) return capacity::calibration_table(silicon);
  std::string text{kIntroduction};
  if (parsed.has("--peer")) {
    auto section = peer_section(parsed.value_of("--trace"), parsed.value_of("--peer"));
    if (!section) return section;
    text += *section;
  }
  if (!silicon.empty()) {
    auto section = capacity::silicon_fidelity_markdown(silicon);
    if (!section) return section;
    text += *section + std::string{kSiliconNotes};
  }
  return text;
}

}  // namespace

int fidelity(const Arguments& arguments) {
  const auto parsed = parse_arguments(usage(), arguments);
  if (!parsed) return parsed.error();
  if (parsed->has("--peer") != parsed->has("--trace"))
    return complain_of_input({core::ErrorCode::kInvalidInput, "--peer", "needs --trace, and the reverse", {}});
  if (!parsed->has("--peer") && !parsed->has("--silicon"))
    return complain_of_input({core::ErrorCode::kInvalidInput,
                              {},
                              "there is nothing to compare with",
                              "give --silicon FILE, or --trace FILE and --peer FILE"});
  if (parsed->has("--calibrate") && !parsed->has("--silicon"))
    return complain_of_input({core::ErrorCode::kInvalidInput, "--calibrate", "needs --silicon", {}});
  const auto text = page(*parsed);
  if (!text) return complain_of_input(text.error());
  if (!parsed->has("--out")) return print(*text);
  const auto written = report::write_file(parsed->value_of("--out"), *text);
  return written ? kGood : complain(written.error());
}

}  // namespace penstock::cli
