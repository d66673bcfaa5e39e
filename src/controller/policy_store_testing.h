// A store of a policy's state that a test controls.
#pragma once

#include <optional>
#include <utility>

#include "controller/policy_store.h"

namespace penstock::controller {

// Keeps one state. Fails, or waits, where a test wants it.
class ScriptedStore final : public PolicyStore {
 public:
  void load(Loaded loaded) override {
    ++loads;
    if (is_late)
      waiting = std::move(loaded);
    else if (error)
      loaded(tl::make_unexpected(*error));
    else
      loaded(StoredState{state, unusable_because});
  }
  void save(const connect::SavedPolicyState& saved, Saved done) override {
    ++saves;
    state = saved;
    done({});
  }

  std::optional<connect::SavedPolicyState> state;
  std::string unusable_because;
  std::optional<core::Error> error;  // Of each load.
  bool is_late = false;
  Loaded waiting;
  int loads = 0, saves = 0;
};

}  // namespace penstock::controller
