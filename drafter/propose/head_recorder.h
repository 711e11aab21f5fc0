// Takes examples for the acceptance head from the drafting loop and writes them to a file on a
// thread of its own: a slow disk loses examples, but delays no draft.
//
// The examples come from serving (SpecDec++, section 3.2, mixes them instead: a text of the target
// in which 85 % of the tokens are replaced by samples of the drafter). Here each token was sampled
// after the very tokens that its hidden state has seen, and so was its label; nothing has to be
// mixed, and neither model runs an additional pass. Only rounds that no stop rule cuts count, so
// that what follows unlikely tokens is seen as often as it is drafted.
//
// Thread: the drafting loop's. When its queue is full or the file is complete, it drops examples.
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

  // Whether a session with these transforms is recorded: they must be those of the file, which are
  // the first session's.
  bool Takes(const HeadTransforms& transforms);
  // Adds examples of recorded sessions.
  void Add(std::vector<HeadExample> examples);

 private:
  void Write();

  const std::unique_ptr<HeadDataWriter> writer_;  // used by the thread
  const uint64_t max_examples_;
  std::optional<HeadTransforms> transforms_;
  bool told_ = false;  // that sessions with other transforms exist
  Inbox<std::vector<HeadExample>> inbox_;
  std::thread thread_;
};

}  // namespace outrider
