// Takes examples for the acceptance head from the drafting loop and writes them to a file, on a
// thread of its own: a slow disk loses examples, it holds up no draft.
//
// The examples are those that serving makes (SpecDec++, section 3.2, mixes them instead: a text of
// the target's with 85 % of its tokens replaced by draws of the drafter's). Here each token was
// drawn behind the very tokens that its hidden state has seen, and so was its label; nothing needs
// to be mixed, and neither model does a pass that it would not do anyway. Only rounds that no stop
// rule cuts count, so that what lies behind unlikely tokens is seen as often as it is drafted.
//
// Thread: the drafting loop's. When full or at its bound it drops what comes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/inbox.h"
#include "common/training/head_data.h"

namespace outrider {

class HeadRecorder {
 public:
  // Writes until the file holds `max_examples`.
  HeadRecorder(std::unique_ptr<HeadDataWriter> writer, uint64_t max_examples);
  // Writes what was added.
  ~HeadRecorder();

  // Whether a session of these transforms is recorded: the file's, which the first session settles.
  bool Takes(const HeadTransforms& transforms);
  // Of sessions that are.
  void Add(std::vector<HeadExample> examples);

 private:
  void Write();

  const std::unique_ptr<HeadDataWriter> writer_;  // the thread's
  const uint64_t max_examples_;
  std::optional<HeadTransforms> transforms_;
  bool told_ = false;  // that there are sessions of other transforms
  Inbox<std::vector<HeadExample>> inbox_;
  std::thread thread_;
};

}  // namespace outrider
