#include "drafter/propose/head_recorder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/log.h"
#include "common/math/softmax.h"

namespace outrider {
namespace {

constexpr size_t kMostWaiting = 1024;  // verdicts; with 7 tokens of 4096 floats each: 117 MB

}  // namespace

HeadRecorder::HeadRecorder(std::unique_ptr<HeadDataWriter> writer, uint64_t max_examples)
    : writer_(std::move(writer)),
      max_examples_(max_examples),
      transforms_(writer_->transforms()),
      inbox_(kMostWaiting),
      thread_([this] { Write(); }) {}

HeadRecorder::~HeadRecorder() {
  inbox_.Close();
  thread_.join();
}

bool HeadRecorder::Takes(const HeadTransforms& transforms) {
  const SamplingParams& sampling = transforms.sampling;
  if (!sampling.logit_bias.empty() || !sampling.allowed_tokens.empty() ||
      !sampling.bad_words.empty() || sampling.grammar.has_value()) {
    return false;
  }
  if (!transforms_.has_value()) transforms_ = transforms;
  if (*transforms_ == transforms) return true;
  if (!told_) {
    Log(LogLevel::kWarning, "head data: sessions that sample otherwise are not recorded");
  }
  told_ = true;
  return false;
}

void HeadRecorder::Add(std::vector<HeadExample> examples) {
  (void)inbox_.TryPush(std::move(examples));
}

void HeadRecorder::Write() {
  bool writing = true;
  for (;;) {
    const std::vector<std::vector<HeadExample>> taken = inbox_.Drain(std::nullopt);
    if (taken.empty()) return;  // the queue is closed
    std::vector<HeadExample> examples;
    for (const std::vector<HeadExample>& some : taken) {
      // Hidden states that overflowed are useless for training.
      std::copy_if(some.begin(), some.end(), std::back_inserter(examples),
                   [](const HeadExample& example) { return IsFinite(example.hidden); });
    }
    if (!writing) continue;
    const uint64_t room = max_examples_ - std::min(max_examples_, writer_->examples());
    if (examples.size() >= room) examples.resize(room);
    // transforms_ is set before anything is added.
    Status written = writer_->transforms().has_value() ? Status() : writer_->Begin(*transforms_);
    if (written.ok()) written = writer_->Append(examples);
    if (!written.ok()) {
      Log(LogLevel::kError, "head data: no more is written", {{"reason", written.ToString()}});
      writing = false;
    } else if (writer_->examples() >= max_examples_) {
      Log(LogLevel::kInfo, "head data: complete", {{"examples", writer_->examples()}});
      writing = false;
    }
  }
}

}  // namespace outrider
