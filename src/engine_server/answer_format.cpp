#include "engine_server/answer_format.h"

#include <utility>

#include "api/message_answer.h"

namespace penstock::engine_server {
namespace {

api::Usage usage_of(const SessionRequest& request) {
  return {request.prompt_tokens, request.generated, request.cached_tokens};
}

class CompletionFormat final : public AnswerFormat {
 public:
  CompletionFormat(api::AnswerFrame frame, bool include_usage)
      : frame_(std::move(frame)), include_usage_(include_usage) {}

  void append_start(std::string& out, const SessionRequest&) const override { api::append_first_event(out, frame_); }
  void append_text(std::string& out, std::string_view text) const override {
    api::append_text_event(out, frame_, text);
  }
  void append_end(std::string& out, const SessionRequest& request) const override {
    api::append_finish_event(out, frame_, request.plan.finish);
    if (include_usage_) api::append_usage_event(out, frame_, usage_of(request));
    out += api::kDoneEvent;
  }
  [[nodiscard]] std::string whole(std::string_view text, const SessionRequest& request,
                                  std::string_view kv_transfer_params) const override {
    return api::whole_answer(frame_, text, request.plan.finish, usage_of(request), kv_transfer_params);
  }
  [[nodiscard]] std::string error_body(const api::ApiError& error) const override { return api::error_body(error); }

 private:
  api::AnswerFrame frame_;
  bool include_usage_;
};

class MessageFormat final : public AnswerFormat {
 public:
  MessageFormat(api::AnswerFrame frame, std::vector<std::string> stop)
      : frame_(std::move(frame)), stop_(std::move(stop)) {}

  void append_start(std::string& out, const SessionRequest& request) const override {
    api::append_message_start(out, frame_, {request.prompt_tokens, 0, request.cached_tokens});
  }
  void append_text(std::string& out, std::string_view text) const override { api::append_message_text(out, text); }
  void append_end(std::string& out, const SessionRequest& request) const override {
    api::append_block_stop(out, 0);
    api::append_message_delta(out, end_of(request), request.generated, usage_of(request));
    out += api::kMessageStopEvent;
  }
  [[nodiscard]] std::string whole(std::string_view text, const SessionRequest& request,
                                  std::string_view kv_transfer_params) const override {
    return api::whole_message(frame_, text, end_of(request), usage_of(request), kv_transfer_params);
  }
  [[nodiscard]] std::string error_body(const api::ApiError& error) const override {
    return api::message_error_body(error);
  }

 private:
  [[nodiscard]] api::MessageEnd end_of(const SessionRequest& request) const {
    const auto& stop = request.plan.stop;
    const bool is_stopped = stop && request.plan.finish == api::FinishReason::kStop;
    return {request.plan.finish, is_stopped ? std::string_view{stop_[*stop]} : std::string_view{}};
  }

  api::AnswerFrame frame_;
  std::vector<std::string> stop_;
};

}  // namespace

std::unique_ptr<const AnswerFormat> completion_format(api::AnswerFrame frame, bool include_usage) {
  return std::make_unique<CompletionFormat>(std::move(frame), include_usage);
}

std::unique_ptr<const AnswerFormat> message_format(api::AnswerFrame frame, std::vector<std::string> stop) {
  return std::make_unique<MessageFormat>(std::move(frame), std::move(stop));
}

}  // namespace penstock::engine_server
