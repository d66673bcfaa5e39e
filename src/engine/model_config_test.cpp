// The dimensions are those of the published config.json files of the models.
#include "engine/model_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/roofline.h"

namespace penstock::engine {
namespace {

struct Published {
  const char* name;  // In the catalogue.
  const char* config;
};

void PrintTo(const Published& published, std::ostream* out) { *out << published.name; }

class ConfigOfTheCatalogue : public ::testing::TestWithParam<Published> {};

TEST_P(ConfigOfTheCatalogue, GivesTheSameDimensions) {
  const ModelCard& known = *find_model(GetParam().name);
  const auto read = parse_model_config(GetParam().config, "config.json");
  ASSERT_TRUE(read) << read.error().message();
  const ModelCard& card = (*read)->card;
  EXPECT_EQ(card.layers, known.layers);
  EXPECT_EQ(card.kv_elements_per_token(), known.kv_elements_per_token());
  EXPECT_EQ(card.attention_parameters(), known.attention_parameters());
  EXPECT_EQ(card.dense_parameters(), known.dense_parameters());
  EXPECT_EQ(card.expert_parameters(), known.expert_parameters());
  EXPECT_EQ(card.active_parameters(), known.active_parameters());
  EXPECT_EQ(card.embedding_parameters(), known.embedding_parameters());
  EXPECT_EQ(card.attention_flops_per_pair(), known.attention_flops_per_pair());
  EXPECT_EQ(card.full_layers, known.full_layers);
  EXPECT_EQ(card.window, known.window);
  EXPECT_EQ(card.state_bytes, known.state_bytes);
  EXPECT_EQ(card.sparse_tokens, known.sparse_tokens);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ConfigOfTheCatalogue,
    ::testing::Values(
        // Without head_dim: hidden_size / num_attention_heads.
        Published{"llama-3.1-8b", R"({"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
          "num_hidden_layers":32,"num_key_value_heads":8,"vocab_size":128256})"},
        Published{"qwen3-32b", R"({"head_dim":128,"hidden_size":5120,"intermediate_size":25600,
          "num_attention_heads":64,
          "num_hidden_layers":64,"num_key_value_heads":8,"sliding_window":null,"use_sliding_window":false,
          "vocab_size":151936})"},
        // A window that is not used.
        Published{"qwen2.5-7b", R"({"hidden_size":3584,"intermediate_size":18944,"num_attention_heads":28,
          "num_hidden_layers":28,"num_key_value_heads":4,"sliding_window":131072,"use_sliding_window":false,
          "vocab_size":152064})"},
        Published{"mixtral-8x7b", R"({"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
          "num_experts_per_tok":2,"num_hidden_layers":32,"num_key_value_heads":8,"num_local_experts":8,
          "vocab_size":32000})"},
        Published{"qwen3-30b-a3b", R"({"head_dim":128,"hidden_size":2048,"intermediate_size":6144,
          "moe_intermediate_size":768,"num_attention_heads":32,"num_experts":128,"num_experts_per_tok":8,
          "num_hidden_layers":48,"num_key_value_heads":4,"vocab_size":151936})"},
        // num_key_value_heads does not hold for latent attention.
        Published{"deepseek-v3", R"({"first_k_dense_replace":3,"hidden_size":7168,"intermediate_size":18432,
          "kv_lora_rank":512,"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,
          "num_attention_heads":128,"num_experts_per_tok":8,"num_hidden_layers":61,"num_key_value_heads":128,
          "q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":129280})"},
        Published{"gpt-oss-20b", R"({"head_dim":64,"hidden_size":2880,"intermediate_size":2880,"layer_types":[
        "sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention",
        "sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention",
        "sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention",
        "sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention"],
          "num_attention_heads":64,
          "num_experts_per_tok":4,"num_hidden_layers":24,"num_key_value_heads":8,
          "num_local_experts":32,"sliding_window":128,"vocab_size":201088})"},
        Published{"qwen3.5-397b-a17b", R"({"text_config":{"full_attention_interval":4,"head_dim":256,
          "hidden_size":4096,
          "intermediate_size":1024,"linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_num_key_heads":16,
          "linear_num_value_heads":64,"linear_value_head_dim":128,"moe_intermediate_size":1024,
          "num_attention_heads":32,
          "num_experts":512,"num_experts_per_tok":10,"num_hidden_layers":60,"num_key_value_heads":2,
          "shared_expert_intermediate_size":1024,"vocab_size":248320}})"}));

// Gemma 3 27B: 62 layers, every sixth of which attends to all tokens.
TEST(ModelConfig, CountsLayersByTheirPattern) {
  const auto read = parse_model_config(
      R"({"text_config":{"head_dim":128,"hidden_size":5376,"intermediate_size":21504,"num_attention_heads":32,
          "num_hidden_layers":62,"num_key_value_heads":16,"sliding_window":1024,"sliding_window_pattern":6,
          "vocab_size":262208}})",
      "gemma");
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)->card.full_layers, 10U);
  EXPECT_EQ((*read)->card.window, 1024U);
}

TEST(ModelConfig, TakesThePrecisionOfTheCheckpoint) {
  const auto precision = [](std::string quantization) {
    const auto read = parse_model_config(R"({"hidden_size":64,"intermediate_size":64,"num_attention_heads":1,
        "num_hidden_layers":1,"vocab_size":8,"quantization_config":)" +
                                             quantization + "}",
                                         "m");
    return read ? (*read)->precision : std::nullopt;
  };
  EXPECT_EQ(precision(R"({"quant_method":"fp8"})"), Precision::kFp8);
  EXPECT_EQ(precision(R"({"quant_method":"mxfp4"})"), Precision::kFp4);
  EXPECT_EQ(precision(R"({"quant_method":"awq","bits":4})"), Precision::kInt4);
  EXPECT_EQ(precision(R"({"quant_method":7})"), std::nullopt);
  EXPECT_EQ(precision("null"), std::nullopt);
}

TEST(ModelConfig, NamesTheKeyThatIsWrong) {
  const auto problem = [](std::string_view config) {
    const auto read = parse_model_config(config, "config.json");
    return read ? "" : read.error().message();
  };
  EXPECT_EQ(problem("[]"), "config.json: is no JSON object; give the config.json of a model");
  EXPECT_EQ(problem("{}"), "config.json: num_hidden_layers: is missing or 0");
  EXPECT_EQ(problem(R"({"num_hidden_layers":-1})"),
            "config.json: num_hidden_layers: must be a number from 0 to 10000000");
  EXPECT_EQ(problem(R"({"num_hidden_layers":"32"})"),
            "config.json: num_hidden_layers: must be a number from 0 to 10000000");
  EXPECT_EQ(problem(R"({"hidden_size":64,"intermediate_size":64,"num_attention_heads":2,"num_key_value_heads":4,
      "num_hidden_layers":1,"vocab_size":8})"),
            "config.json: num_key_value_heads: must be from 1 to num_attention_heads");
  EXPECT_EQ(
      problem(R"({"hidden_size":64,"intermediate_size":64,"num_attention_heads":2,"layer_types":["full_attention"],
      "num_hidden_layers":2,"vocab_size":8})"),
      "config.json: layer_types: must have an entry for each layer");
  EXPECT_NE(problem(R"({"hybrid_override_pattern":"M*"})").find("Mamba"), std::string::npos);
}

TEST(RooflineByHand, IsThatOfTheCatalogueWithTheSameDimensions) {
  const std::filesystem::path folder = ::testing::TempDir() + "model_config_test";
  std::filesystem::create_directories(folder);
  std::ofstream{folder / "config.json"}
      << R"({"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
             "num_key_value_heads":8,"vocab_size":128256,"quantization_config":{"quant_method":"fp8"}})";
  StepShape shape;
  shape.prefill_new_tokens = 100;
  shape.decode_sequences = 8;
  shape.decode_context_tokens = 8000;
  const auto known = parse_roofline("llama-3.1-8b,h100,precision=fp8");
  for (const std::string& path : {folder.string(), (folder / "config.json").string()}) {
    const auto read = parse_roofline(path + ",h100");
    ASSERT_TRUE(read) << read.error().message();
    // Only models of the catalogue have a measured efficiency of their own.
    EXPECT_NEAR(core::ratio(read->step(shape), known->step(shape)), 1.0, 0.15);
    // What describes it makes it again.
    const auto again = parse_roofline(read->description().substr(sizeof("roofline:") - 1));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(again->step(shape), read->step(shape));
  }
  const auto missing = parse_roofline("./no-such-folder/config.json,h100");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().where, "./no-such-folder/config.json");
}

TEST(RooflineByHand, TakesTheFiguresOfAnUnknownGpu) {
  const auto unknown = parse_roofline(
      "llama-3.1-8b,mi300x,gpu_memory_gib=191.5,gpu_bandwidth_gb_s=5300,gpu_bf16_tflops=1307,gpu_fp8_tflops=2615");
  ASSERT_TRUE(unknown) << unknown.error().message();
  EXPECT_EQ(unknown->spec().gpu->name, "mi300x");
  EXPECT_EQ(unknown->spec().gpu->fp4_tflops, 2615.0);
  const auto again = parse_roofline(unknown->description().substr(sizeof("roofline:") - 1));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->description(), unknown->description());
}

TEST(RooflineByHand, FiguresReplaceThoseOfTheCatalogue) {
  const auto usual = parse_roofline("llama-3.1-8b,h100");
  const auto half = parse_roofline("llama-3.1-8b,h100,gpu_memory_gib=39");
  ASSERT_TRUE(half) << half.error().message();
  EXPECT_EQ(half->spec().gpu->driver_gib, 39.0);
  EXPECT_EQ(half->spec().gpu->bandwidth_gb_per_s, usual->spec().gpu->bandwidth_gb_per_s);
  EXPECT_NE(usual->spec().gpu->driver_gib, 39.0);
}

TEST(RooflineByHand, NamesWhatIsMissing) {
  const auto problem = [](std::string_view text) { return parse_roofline(text).error().message(); };
  EXPECT_NE(problem("llama-3.1-8b,mi300x,gpu_memory_gib=191.5").find("give gpu_memory_gib, gpu_bandwidth_gb_s and"),
            std::string::npos);
  EXPECT_EQ(problem("llama-3.1-8b,mi300x,gpu_memory_gib=nan"),
            "roofline: gpu_memory_gib: must be from 1 to 4096, is 'nan'");
  EXPECT_NE(problem("llama-9,h100").find("./config.json"), std::string::npos);
}

}  // namespace
}  // namespace penstock::engine
