#include "drafter/propose/training_capture.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace outrider {

std::optional<uint64_t> TrainingCapture::PromptToRecord(
    const SessionOpening& open, const DraftSession& session,
    const DraftDistributionLimits& limits) const {
  if (recorder_ == nullptr || !session.for_training() ||
      !recorder_->Takes({.sampling = open.sampling, .distribution_limits = limits})) {
    return std::nullopt;
  }
  return PromptId(std::span(open.tokens).first(static_cast<size_t>(open.prompt_tokens)));
}

void TrainingCapture::OnVerdict(const HeldSession& held, const SessionVerdict& verdict) const {
  const DraftSession& session = held.mirror->session;
  const Mirror::FedNodes& fed = held.mirror->fed;
  if (!held.prompt.has_value() || verdict.round != session.round()) return;
  const auto width = static_cast<size_t>(hidden_size_);
  const size_t labelled =
      std::min(verdict.acceptance.size(), static_cast<size_t>(session.draft().size()));
  std::vector<HeadExample> examples;
  for (size_t i = 0; i < fed.nodes.size(); ++i) {
    const auto index = static_cast<size_t>(fed.nodes[i]) - 1;
    if (index >= labelled) continue;
    const float* state = fed.states.data() + i * width;
    examples.push_back(
        {.prompt = *held.prompt,
         .label = static_cast<float>(static_cast<uint8_t>(verdict.acceptance[index])) / 255.f,
         .hidden = {state, state + width}});
  }
  if (!examples.empty()) recorder_->Add(std::move(examples));
}

}  // namespace outrider
