// Creates step-time models from their text form.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/result.h"
#include "engine/profile.h"
#include "engine/roofline.h"
#include "engine/step_time.h"

namespace penstock::engine {

// `spec` is one of
//   polynomial                               NVIDIA Dynamo's default timing
//   linear:ALPHA,BETA,GAMMA,DELTA            ms per step, sequence, prompt token, KV token
//   FILE.json, FILE.npz, table:FILE[,FILE]   a measured profile; prefill and decode may be in two files
//   roofline:MODEL,GPU[,tp=N][,…]            computed from data sheets; see roofline.h
// Reads the named files. Errors name the spec or the file; docs/step-time.md describes each.
[[nodiscard]] core::Result<std::shared_ptr<const StepTimeModel>> make_step_time_model(std::string_view spec);

// The roofline that `spec` describes; empty for other models and for a description with errors.
[[nodiscard]] std::optional<Roofline> find_roofline(std::string_view spec);

// The measured profile that `spec` names; empty for other models and for files that cannot be read.
[[nodiscard]] std::optional<EngineProfile> find_profile(std::string_view spec);

// Creates a table model from bytes.
[[nodiscard]] core::Result<std::shared_ptr<const StepTimeModel>> make_table_model(std::span<const ProfileFile> files);

// Reads a whole file of at most `bytes_max`; kEnvironment if it cannot be read, kInvalidInput if it is longer.
[[nodiscard]] core::Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

}  // namespace penstock::engine
