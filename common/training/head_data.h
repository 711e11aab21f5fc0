// Files of examples for an acceptance head, written by a drafter while it serves and read by the
// trainer: for each draft token the draft model's last hidden state, and the probability that the
// target accepts it, min(1, p / q), as reported by the verifier under the request's sampling.
//
// A file belongs to one draft model and one set of sampling transforms, which its header names;
// another temperature needs another head. The header is followed by examples of equal size with a
// checksum each, so that what a killed writer left at the end is detected and dropped.
//
// Thread: one owner each; files may be read while they are written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/file_descriptor.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/sampling_params.h"

namespace outrider {

// The sampling that makes p and q from logits, without a logit bias.
struct HeadTransforms {
  SamplingParams sampling;
  DraftDistributionLimits distribution_limits;
  friend bool operator==(const HeadTransforms&, const HeadTransforms&) = default;
};

struct HeadDataHeader {
  int width = 0;       // the draft model's hidden size
  uint64_t model = 0;  // ModelFingerprint of the draft model
  HeadTransforms transforms;
};

struct HeadExample {
  uint64_t prompt = 0;  // PromptId of its text; all texts of a prompt stay together
  float label = 0.f;
  std::vector<float> hidden;  // [width], after the final norm
};

// Identifies a prompt by its tokens.
uint64_t PromptId(std::span<const TokenId> prompt);

// Appends to a file, and holds a lock on it, so that two drafters do not write to the same one.
class HeadDataWriter {
 public:
  // Creates the file, or continues after its last complete example. kFailedPrecondition: the file
  // is for another model, or another process writes to it. kInvalidArgument: it holds something
  // else (it is not changed).
  static Result<std::unique_ptr<HeadDataWriter>> Open(const std::string& path, int width,
                                                      uint64_t model);

  // The transforms of the file; unset while it has no example.
  const std::optional<HeadTransforms>& transforms() const { return transforms_; }
  uint64_t examples() const { return examples_; }  // in the file

  // REQUIRES: transforms() is unset.
  Status Begin(const HeadTransforms& transforms);
  // REQUIRES: transforms() is set, and hidden states and labels are those that a reader takes.
  // After an error the end of the file is unknown, so append no more.
  Status Append(std::span<const HeadExample> examples);

 private:
  HeadDataWriter(FileDescriptor file, std::string path, int width, uint64_t model)
      : file_(std::move(file)), path_(std::move(path)), width_(width), model_(model) {}
  Status Read();
  Status Write(std::string_view bytes);

  const FileDescriptor file_;
  const std::string path_;
  const int width_;
  const uint64_t model_;
  std::optional<HeadTransforms> transforms_;
  uint64_t examples_ = 0;
};

struct HeadData {
  HeadDataHeader header;
  std::vector<uint64_t> prompts;  // [size]
  std::vector<float> labels;      // [size]
  std::vector<float> hidden;      // [size, width]
  uint64_t digest = 0;            // of all examples

  size_t size() const { return labels.size(); }
};

// The first examples of a file, at most `max_examples`. kNotFound: it does not exist.
// kFailedPrecondition: it has no header yet. kInvalidArgument: not such a file, or it has another
// version. kDataLoss: an example in the middle is damaged: its checksum is wrong, its label is no
// probability or a hidden state is not finite.
Result<HeadData> ReadHeadData(const std::string& path, uint64_t max_examples);

// Header and number of complete examples, without reading these. Errors are as above.
struct HeadDataSize {
  HeadDataHeader header;
  uint64_t examples = 0;
};
Result<HeadDataSize> CountHeadData(const std::string& path);

}  // namespace outrider
