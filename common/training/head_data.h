// Files of examples for an acceptance head, written by a drafter that serves and read by the
// trainer: of drafted tokens the draft model's last hidden state, and the chance that the target
// accepts them, min(1, p / q), as the verifier reported it under the transforms of the request.
//
// A file belongs to one draft model and one set of transforms, which its header names; another
// temperature is another head. Behind the header examples of one size follow, each with a check
// sum: what a writer that was killed left at the end is told apart, and dropped.
//
// Thread: one owner each; files may be read while they are written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/sampling_params.h"

namespace outrider {

// What makes p and q of the logits. Sampling without a logit bias.
struct HeadTransforms {
  SamplingParams sampling;
  DraftDistributionLimits distribution_limits;
  friend bool operator==(const HeadTransforms&, const HeadTransforms&) = default;
};

struct HeadDataHeader {
  int width = 0;       // the draft model's hidden size
  uint64_t model = 0;  // its ModelFingerprint
  HeadTransforms transforms;
};

struct HeadExample {
  uint64_t prompt = 0;  // PromptId of its text: what of one prompt's texts must not be torn apart
  float label = 0.f;
  std::vector<float> hidden;  // [width], after the final norm
};

// Tells prompts apart by their tokens.
uint64_t PromptId(std::span<const TokenId> prompt);

// Appends to a file. It holds a lock on it, so that two drafters do not write into one.
class HeadDataWriter {
 public:
  // Makes the file where there is none, else goes on behind its last whole example.
  // kFailedPrecondition for a file of another model, or that another process writes to,
  // kInvalidArgument for one that holds something else (it is left alone).
  static Result<std::unique_ptr<HeadDataWriter>> Open(const std::string& path, int width,
                                                      uint64_t model);
  ~HeadDataWriter();
  HeadDataWriter(const HeadDataWriter&) = delete;
  HeadDataWriter& operator=(const HeadDataWriter&) = delete;

  // Those of the file; unset while it has no example.
  const std::optional<HeadTransforms>& transforms() const { return transforms_; }
  uint64_t examples() const { return examples_; }  // of the file

  // REQUIRES: transforms() is unset.
  Status Begin(const HeadTransforms& transforms);
  // REQUIRES: transforms() is set. Behind an error the file's end is not known: append no more.
  Status Append(std::span<const HeadExample> examples);

 private:
  HeadDataWriter(int file, std::string path, int width, uint64_t model)
      : file_(file), path_(std::move(path)), width_(width), model_(model) {}
  Status Read();
  Status Write(std::string_view bytes);

  const int file_;
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
  uint64_t digest = 0;            // of all of it

  size_t size() const { return labels.size(); }
};

// The first examples of a file, `most` at most. kNotFound without it, kFailedPrecondition while it
// has no header yet, kInvalidArgument when it is no such file or of another version, kDataLoss when
// an example in the middle is damaged.
Result<HeadData> ReadHeadData(const std::string& path, uint64_t most);

// Header and number of whole examples, without looking at them. Errors as above.
struct HeadDataSize {
  HeadDataHeader header;
  uint64_t examples = 0;
};
Result<HeadDataSize> CountHeadData(const std::string& path);

}  // namespace outrider
