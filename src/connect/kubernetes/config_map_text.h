// A text in a ConfigMap, which survives the process that wrote it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "connect/kubernetes/client.h"
#include "connect/kubernetes/lease.h"
#include "core/result.h"

namespace penstock::connect {

// Lives on one loop. Other keys of the ConfigMap stay as they are. A write replaces exactly the version that was read
// or written last; after a conflict it reads and tries again.
class ConfigMapText {
 public:
  // A ConfigMap holds 1 MiB with its metadata and all keys.
  static constexpr std::size_t kBytesMax = 1024 * 1024 - 16 * 1024;
  using Loaded = std::function<void(core::Result<std::optional<std::string>>)>;  // Empty: there is no such text.
  using Saved = std::function<void(core::Result<void>)>;

  ConfigMapText(KubernetesClient& client, ObjectName name, std::string key)
      : client_(client), name_(std::move(name)), key_(std::move(key)) {}

  void load(Loaded loaded);
  // A text that waits for an earlier write is replaced by a later one, whose result both get.
  void save(std::string text, Saved saved);

 private:
  void begin(std::string text);
  void write();
  void read_version();
  void take(const ApiAnswer& answer, bool is_create);
  void finish(const core::Result<void>& result);

  KubernetesClient& client_;
  const ObjectName name_;
  const std::string key_;
  std::string version_;  // Empty: unknown, or there is no such object.
  bool is_missing_ = false;
  bool is_writing_ = false;
  int attempts_ = 0;
  std::string text_;
  std::optional<std::string> next_;  // Waits for the write of `text_`.
  std::vector<Saved> waiting_, waiting_for_next_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace penstock::connect
