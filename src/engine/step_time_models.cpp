#include "engine/step_time_models.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "engine/linear.h"
#include "engine/polynomial.h"
#include "engine/table.h"

namespace penstock::engine {
namespace {

using core::invalid_input;
using ModelResult = core::Result<std::shared_ptr<const StepTimeModel>>;

constexpr std::size_t kFilesMax = 4;
constexpr std::string_view kRoofline = "roofline:", kTable = "table:";
constexpr const char* kHint =
    "use polynomial, linear:ALPHA,BETA,GAMMA,DELTA, roofline:MODEL,GPU,tp=N,precision=P, or a profile FILE.json or "
    "FILE.npz";

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

ModelResult make_linear(std::string_view arguments) {
  const auto parts = split(arguments);
  std::array<double, 4> values{};
  if (parts.size() != values.size())
    return invalid_input("linear", fmt::format("takes 4 numbers, has {}", parts.size()),
                         "write linear:ALPHA,BETA,GAMMA,DELTA in ms");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [end, error] = std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), values[i]);
    if (error != std::errc{} || end != parts[i].data() + parts[i].size())
      return invalid_input("linear", fmt::format("'{}' is not a number", parts[i]),
                           "write linear:ALPHA,BETA,GAMMA,DELTA in ms");
  }
  auto model = Linear::make({values[0], values[1], values[2], values[3]});
  if (!model) return tl::make_unexpected(model.error());
  return std::make_shared<const Linear>(*model);
}

// Calls `use` with the files. Errors: files that cannot be read, too many.
template <class Use>
auto with_files(std::string_view paths, Use&& use) -> decltype(use(std::span<const ProfileFile>{})) {
  std::vector<std::string> contents;
  const auto names = split(paths);
  if (names.size() > kFilesMax)
    return invalid_input("table", fmt::format("names {} files, the maximum is {}", names.size(), kFilesMax));
  for (const std::string_view name : names) {
    auto bytes = read_file(std::string{name}, kProfileBytesMax);
    if (!bytes) return tl::make_unexpected(bytes.error());
    contents.push_back(std::move(*bytes));
  }
  std::vector<ProfileFile> files;
  for (std::size_t i = 0; i < names.size(); ++i)
    files.push_back(
        {std::string{names[i]}, {reinterpret_cast<const std::uint8_t*>(contents[i].data()), contents[i].size()}});
  return use(files);
}

// The files of a table; empty for other models.
std::string_view table_paths(std::string_view spec) {
  if (spec.starts_with(kTable)) return spec.substr(kTable.size());
  return spec.ends_with(".json") || spec.ends_with(".npz") ? spec : std::string_view{};
}

}  // namespace

ModelResult make_step_time_model(std::string_view spec) {
  const auto after = [&](std::string_view prefix) { return spec.substr(prefix.size()); };
  if (spec == "polynomial") return std::make_shared<const Polynomial>();
  if (spec.starts_with("linear:")) return make_linear(after("linear:"));
  if (spec.starts_with(kRoofline)) {
    auto model = parse_roofline(after(kRoofline));
    if (!model) return tl::make_unexpected(model.error());
    return std::make_shared<const Roofline>(*model);
  }
  if (spec.starts_with(kTable) || !table_paths(spec).empty()) return with_files(table_paths(spec), make_table_model);
  return invalid_input(fmt::format("step-time model '{}'", spec.substr(0, 64)), "is unknown", kHint);
}

std::optional<Roofline> find_roofline(std::string_view spec) {
  if (!spec.starts_with(kRoofline)) return std::nullopt;
  auto roofline = parse_roofline(spec.substr(kRoofline.size()));
  if (!roofline) return std::nullopt;
  return *std::move(roofline);
}

std::optional<EngineProfile> find_profile(std::string_view spec) {
  const std::string_view paths = table_paths(spec);
  if (paths.empty()) return std::nullopt;
  auto profile = with_files(paths, read_profile);
  if (!profile) return std::nullopt;
  return *std::move(profile);
}

ModelResult make_table_model(std::span<const ProfileFile> files) {
  auto profile = read_profile(files);
  if (!profile) return tl::make_unexpected(profile.error());
  std::string name;
  for (const ProfileFile& file : files) name += (name.empty() ? "" : ",") + file.name;
  return std::make_shared<const Table>(std::move(*profile), std::move(name));
}

core::Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  std::ifstream file{path, std::ios::binary};
  if (!file) return core::environment_error(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::string bytes;
  std::array<char, 1 << 16> chunk;
  while (file.read(chunk.data(), chunk.size()), file.gcount() > 0) {
    bytes.append(chunk.data(), static_cast<std::size_t>(file.gcount()));
    if (bytes.size() > bytes_max) return invalid_input(path, fmt::format("is longer than {} bytes", bytes_max));
  }
  if (file.bad()) return core::environment_error(path, "cannot be read");
  return bytes;
}

}  // namespace penstock::engine
