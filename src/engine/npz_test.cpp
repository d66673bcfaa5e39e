#include "engine/npz.h"

#include <gtest/gtest.h>

#include "engine/engine_data_testing.h"
#include "engine/step_time_models.h"

namespace penstock::engine {
namespace {

using testing::npy;
using testing::npy_doubles;
using testing::raw;
using testing::zip;

core::Result<std::map<std::string, NumberArray>> read(const std::string& bytes, const NpzLimits& limits = {}) {
  return read_npz(testing::bytes_of(bytes), "p.npz", limits);
}

std::string problem(const std::string& bytes, const NpzLimits& limits = {}) {
  const auto arrays = read(bytes, limits);
  return arrays ? "" : arrays.error().message();
}

TEST(Npz, ReadsStoredAndDeflatedArrays) {
  const auto arrays = read(zip({{"a.npy", npy_doubles({1.5, 2.5})}, {"b.npy", npy_doubles({3.0, 4.0, 5.0}), true}}));
  ASSERT_TRUE(arrays) << arrays.error().message();
  EXPECT_EQ(arrays->at("a").values, (std::vector<double>{1.5, 2.5}));
  EXPECT_EQ(arrays->at("b").values, (std::vector<double>{3.0, 4.0, 5.0}));
  EXPECT_EQ(arrays->at("b").shape, (std::vector<std::size_t>{3}));
}

TEST(Npz, ReadsEveryWidthOfNumberAndGrids) {
  const auto arrays = read(zip({{"i4.npy", npy("<i4", "2,", raw(std::int32_t{-7}) + raw(std::int32_t{9}))},
                                {"i8.npy", npy("<i8", "", raw(std::int64_t{1} << 40))},
                                {"f4.npy", npy("<f4", "1, 2", raw(0.5F) + raw(2.0F))}}));
  ASSERT_TRUE(arrays) << arrays.error().message();
  EXPECT_EQ(arrays->at("i4").values, (std::vector<double>{-7, 9}));
  EXPECT_EQ(arrays->at("i8").values, (std::vector<double>{1099511627776.0}));
  EXPECT_EQ(arrays->at("f4").shape, (std::vector<std::size_t>{1, 2}));
}

TEST(Npz, PassesOverEntriesThatAreNoArrays) {
  const auto arrays = read(zip({{"notes.txt", "hello"}, {"a.npy", npy_doubles({1})}}));
  ASSERT_TRUE(arrays);
  EXPECT_EQ(arrays->size(), 1U);
}

TEST(Npz, NamesWhatIsWrongWithAnArray) {
  const std::string one = raw(1.0);
  EXPECT_EQ(problem(zip({{"a.npy", "no array at all"}})), "p.npz: a: is not a .npy array");
  EXPECT_EQ(problem(zip({{"a.npy", npy("<f2", "1,", "xx")}})),
            "p.npz: a: holds <f2 numbers; little-endian f4, f8, i4 and i8 are read");
  EXPECT_EQ(problem(zip({{"a.npy", npy("<f8", "2,", one)}})),
            "p.npz: a: holds 8 bytes where its shape needs 2 numbers");
  EXPECT_EQ(problem(zip({{"a.npy", npy("<f8", "1, 1", one, true)}})),
            "p.npz: a: is in Fortran order; save it with numpy.ascontiguousarray");
  EXPECT_EQ(problem(zip({{"a.npy", npy("<f8", "x", one)}})),
            "p.npz: a: its header cannot be parsed; save an array of plain numbers");
  EXPECT_EQ(problem(zip({{"a.npy", npy_doubles({1})}, {"a.npy", npy_doubles({1})}})), "p.npz: a: occurs twice");
}

TEST(Npz, RefusesDamagedArchives) {
  EXPECT_EQ(problem(""), "p.npz: is not a zip archive, or its end is missing; an .npz file is one");
  const std::string good = zip({{"a.npy", npy_doubles({1, 2}), true}});
  EXPECT_NE(problem(good.substr(0, good.size() - 1)), "");
  std::string flipped = good;
  flipped[45] = static_cast<char>(flipped[45] ^ 0x55);
  EXPECT_TRUE(problem(flipped).starts_with("p.npz: a: ")) << problem(flipped);
  std::string checksum = zip({{"a.npy", npy_doubles({1, 2})}});
  checksum[checksum.find("NUMPY") + 130] ^= 1;
  EXPECT_EQ(problem(checksum), "p.npz: a: its checksum differs; the file is damaged");
}

TEST(Npz, EnforcesItsLimits) {
  NpzLimits limits;
  limits.entries_max = 1;
  EXPECT_EQ(problem(zip({{"a.npy", npy_doubles({1})}, {"b.npy", npy_doubles({1})}}), limits),
            "p.npz: holds 2 entries, the maximum is 1");
  limits = {};
  limits.array_bytes_max = 100;
  EXPECT_EQ(problem(zip({{"a.npy", npy_doubles({1})}}), limits), "p.npz: a: has 136 bytes, the maximum is 100");
  limits = {};
  limits.total_bytes_max = 200;
  EXPECT_EQ(problem(zip({{"a.npy", npy_doubles({1})}, {"b.npy", npy_doubles({1})}}), limits),
            "p.npz: holds more than 200 bytes");
}

TEST(Npz, NeverReadsBeyondATruncatedFile) {
  const std::string good = zip({{"a.npy", npy_doubles({1, 2}), true}, {"b.npy", npy_doubles({3})}});
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    const std::string cut = good.substr(0, bytes);
    EXPECT_FALSE(read(cut)) << bytes;
  }
}

TEST(Npz, ReadsWhatDynamosProfilerWrote) {
  const auto path = testing::engine_data("dynamo_npz/llama-3.1-8b-fp8_h200_tp1_decode_raw_data.npz");
  if (!path) return;
  const auto bytes = read_file(*path, 1 << 20);
  ASSERT_TRUE(bytes);
  const auto arrays = read(*bytes);
  ASSERT_TRUE(arrays) << arrays.error().message();
  EXPECT_EQ(arrays->at("z_itl").values.size(), 41U);
  EXPECT_EQ(arrays->at("max_kv_tokens").values, (std::vector<double>{945029}));
}

}  // namespace
}  // namespace penstock::engine
