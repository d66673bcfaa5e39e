#include "connect/kubernetes/config_map_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "connect/kubernetes/json_values.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr int kAttemptsMax = 4;

}  // namespace

void ConfigMapText::load(Loaded loaded) {
  client_.request(get_call(kConfigMaps, name_.in_namespace, name_.name),
                  [this, loaded = std::move(loaded), alive = std::weak_ptr<int>{alive_}](const ApiAnswer& answer) {
                    if (alive.expired()) return;
                    is_missing_ = !answer && answer.error().reason == ApiReason::kNotFound;
                    if (is_missing_) return loaded(std::optional<std::string>{});
                    if (!answer) return loaded(tl::make_unexpected(core::Error{answer.error()}));
                    version_ = json_text(json_part(*answer, "metadata"), "resourceVersion");
                    const Json& text = json_part(json_part(*answer, "data"), key_.c_str());
                    loaded(text.is_string() ? std::optional{text.get<std::string>()} : std::nullopt);
                  });
}

void ConfigMapText::save(std::string text, Saved saved) {
  if (text.size() > kBytesMax)
    return saved(core::invalid_input(
        fmt::format("ConfigMap {}/{}", name_.in_namespace, name_.name),
        fmt::format("the state has {} bytes, and a ConfigMap holds at most {}", text.size(), kBytesMax),
        "keep the state in a folder of a volume"));
  (is_writing_ ? waiting_for_next_ : waiting_).push_back(std::move(saved));
  if (is_writing_) {
    next_ = std::move(text);
    return;
  }
  begin(std::move(text));
}

void ConfigMapText::begin(std::string text) {
  text_ = std::move(text);
  is_writing_ = true;
  attempts_ = 0;
  write();
}

void ConfigMapText::write() {
  if (version_.empty() && !is_missing_) return read_version();
  const Json data{{key_, text_}};
  ApiCall call = is_missing_ ? create_call(kConfigMaps, name_.in_namespace,
                                           {{"apiVersion", "v1"},
                                            {"kind", "ConfigMap"},
                                            {"metadata", {{"name", name_.name}, {"namespace", name_.in_namespace}}},
                                            {"data", data}})
                             : merge_patch_call(kConfigMaps, name_.in_namespace, name_.name,
                                                {{"metadata", {{"resourceVersion", version_}}}, {"data", data}});
  client_.request(std::move(call),
                  [this, is_create = is_missing_, alive = std::weak_ptr<int>{alive_}](const ApiAnswer& answer) {
                    if (!alive.expired()) take(answer, is_create);
                  });
}

void ConfigMapText::read_version() {
  load([this](const core::Result<std::optional<std::string>>& loaded) {
    if (!loaded) return finish(tl::make_unexpected(loaded.error()));
    write();
  });
}

void ConfigMapText::take(const ApiAnswer& answer, bool is_create) {
  if (answer) {
    version_ = json_text(json_part(*answer, "metadata"), "resourceVersion");
    is_missing_ = false;
    return finish({});
  }
  version_.clear();  // Another process wrote it, or the write may have been carried out.
  is_missing_ = false;
  const ApiReason reason = answer.error().reason;
  const bool is_other_version = reason == ApiReason::kConflict || reason == ApiReason::kAlreadyExists ||
                                (reason == ApiReason::kNotFound && !is_create);
  if (!is_other_version || ++attempts_ >= kAttemptsMax) return finish(tl::make_unexpected(core::Error{answer.error()}));
  write();
}

void ConfigMapText::finish(const core::Result<void>& result) {
  is_writing_ = false;
  const std::weak_ptr<int> alive{alive_};
  for (const Saved& saved : std::exchange(waiting_, {})) {
    saved(result);
    if (alive.expired()) return;
  }
  if (!next_) return;
  waiting_ = std::exchange(waiting_for_next_, {});
  begin(*std::exchange(next_, std::nullopt));
}

}  // namespace penstock::connect
