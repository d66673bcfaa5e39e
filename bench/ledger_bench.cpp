// What the usage ledger costs a request: an entry written in a batch, by itself and with the opening before it.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <vector>

#include "connect/sqlite/ledger_store.h"
#include "ledger/ledger_testing.h"

namespace {

using namespace penstock;

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
    for (ledger::Entry& entry : entries) entry = ledger::testing::closed(ledger::testing::opened(id++));
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
