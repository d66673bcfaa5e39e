#include "gateway/prompt_count.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace penstock::gateway {
namespace {

// After this time the estimate decides, because the count is late.
constexpr core::Duration kCountWait = std::chrono::seconds{1};

}  // namespace

struct PromptCount::Uncounted {
  ReadRequest read;
  api::InferenceRequest request;
  std::vector<std::uint64_t> keys;
  Done done;
  net::Loop::Timer timer = 0;
};

void PromptCount::start(const ReadRequest& read, RequestBody& body, Done done) {
  uncounted_ = std::make_shared<Uncounted>();
  uncounted_->read = read;
  uncounted_->done = std::move(done);
  std::swap(uncounted_->request, context_.scratch);
  std::swap(uncounted_->keys, context_.keys);
  body.prepare_count([this, handle = uncounted_](std::string text) {
    if (uncounted_ != handle) return;
    handle->timer = context_.loop.after(kCountWait, [this, handle] { finish(handle, std::nullopt); });
    context_.count_prompt(
        {handle->request.model, std::move(text), [this, handle](std::optional<std::uint32_t> prompt_tokens) {
           context_.loop.post([this, handle, prompt_tokens] { finish(handle, prompt_tokens); });
         }});
  });
}

void PromptCount::cancel() {
  if (uncounted_) context_.loop.cancel(uncounted_->timer);
  uncounted_.reset();
}

void PromptCount::finish(const Handle& uncounted, std::optional<std::uint32_t> prompt_tokens) {
  if (uncounted_ != uncounted) return;
  const Handle kept = uncounted;  // The timer that holds the argument is cancelled.
  cancel();
  guard_.run([&] {
    std::swap(kept->request, context_.scratch);
    std::swap(kept->keys, context_.keys);
    ReadRequest& read = kept->read;
    read.cache_salt = context_.settings->cache_salts[read.info.tenant];
    read.info.model = context_.scratch.model;
    read.info.keys = context_.keys;
    read.info.may_count_prompt = false;
    read.info.prompt_tokens_given = prompt_tokens.value_or(0);
    kept->done(read);
  });
}

}  // namespace penstock::gateway
