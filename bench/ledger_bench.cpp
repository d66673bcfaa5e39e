// What the usage ledger costs a request: an entry written in a batch, by itself and with the opening before it.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>
#include <vector>

#include "connect/sqlite/ledger_store.h"

namespace {

using namespace penstock;

ledger::Entry entry_of(std::uint64_t id) {
  ledger::Entry entry;
  entry.id = id;
  entry.request_id = "req-" + std::to_string(0x123456789abcdef0 + id);
  entry.tenant = "shop";
  entry.model = "meta-llama/Llama-3.1-70B-Instruct";
  entry.traffic_class = "interactive";
  entry.replica = "chat-3";
  entry.opened_unix_ms = 1'760'000'000'000 + static_cast<std::int64_t>(id) / 40;
  entry.closed_unix_ms = entry.opened_unix_ms + 12;
  entry.reserved_tokens = 512;
  entry.prompt_tokens = 256;
  entry.output_tokens = 16;
  entry.measured = true;
  entry.ttft_ms = 3.25;
  entry.itl_ms = 0.5;
  entry.cost = 0.000152;
  return entry;
}

// Time by entry; the file grows to that of a busy minute and begins again.
void write_batches(benchmark::State& state) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  const bool opens = state.range(1) != 0;
  const auto folder = std::filesystem::temp_directory_path() / "penstock-ledger-bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  auto store = connect::LedgerStore::open(folder / "ledger.sqlite", {});
  if (!store) return state.SkipWithError(store.error().message().c_str());
  std::uint64_t id = 1;
  std::vector<ledger::Entry> entries(batch);
  for (auto _ : state) {
    state.PauseTiming();
    for (ledger::Entry& entry : entries) entry = entry_of(id++);
    state.ResumeTiming();
    if (opens && !store->write(entries, {})) return state.SkipWithError("not written");
    if (!store->write({}, entries)) return state.SkipWithError("not written");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * batch));
  std::filesystem::remove_all(folder);
}
BENCHMARK(write_batches)
    ->Args({1'000, 0})
    ->Args({50, 0})
    ->Args({1'000, 1})
    ->ArgNames({"batch", "opened_before"})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
