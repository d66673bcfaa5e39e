#include "engine/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::engine {
namespace {

class Slowed final : public StepTimeModel {
 public:
  Slowed(std::shared_ptr<const StepTimeModel> model, double factor) : model_(std::move(model)), factor_(factor) {}

  [[nodiscard]] core::Duration step(const StepShape& shape) const override {
    const double time = factor_ * static_cast<double>(model_->step(shape).count());
    return core::Duration{std::max<std::int64_t>(1, std::llround(time))};
  }
  [[nodiscard]] std::string description() const override {
    return fmt::format("{} x {:g}", model_->description(), factor_);
  }

 private:
  std::shared_ptr<const StepTimeModel> model_;
  double factor_;
};

}  // namespace

std::shared_ptr<const StepTimeModel> slowed(std::shared_ptr<const StepTimeModel> model, double factor) {
  PENSTOCK_ASSERT(factor > 0.0, "a step takes time");
  if (factor == 1.0) return model;
  return std::make_shared<Slowed>(std::move(model), factor);
}

DecodeRun StepTimeModel::decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  DecodeRun run;
  StepShape now = shape;
  do {
    run.time += step(now);
    ++run.steps;
    now.decode_context_tokens += now.decode_sequences;
  } while (run.steps < steps && run.time < limit);
  return run;
}

}  // namespace penstock::engine
