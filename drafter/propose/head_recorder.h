// Takes examples for the acceptance head from the drafting loop and writes them to a file, on a
// thread of its own: a slow disk loses examples, it holds up no draft.
//
// The examples are those that serving makes (SpecDec++, section 3.2, mixes them instead: a text of
// the target's with 85 % of its tokens replaced by draws of the drafter's). Here each token was
// drawn after the very tokens that its hidden state has seen, and so was its label; nothing needs
// to be mixed, and neither model runs a pass that it would not run anyway. Only rounds that no stop
// rule cuts count, so that what follows unlikely tokens is seen as often as it is drafted.
//
// Thread: the drafting loop's. When its queue is full or the file has its examples, it drops more.
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

  // Whether a session of these transforms is recorded: those of the file, which are the first
  // session's.
  bool Takes(const HeadTransforms& transforms);
  // Examples of sessions that are recorded.
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
