// How far a text has come in its grammar. A value: copying takes no time in proportion to the text,
// so that each node of a draft tree has its own; states share what they have in common.
//
// Thread: one owner each; copies may be used and destroyed on other threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/grammar/grammar.h"
#include "common/grammar/stepper.h"

namespace outrider::grammar {

// A state that keeps more returns than this is overflowed; a return takes some 32 to 100 bytes.
// They are counted whenever twice as many may have come since they were counted last.
inline constexpr size_t kMaxKeptReturns = 1 << 19;

class GrammarState {
 public:
  // Before the first byte.
  explicit GrammarState(std::shared_ptr<const Grammar> grammar);

  // Reads `bytes`, in time linear in them. False: no text of the grammar goes on like this, or the
  // grammar is so ambiguous that there is no room for all ways of reading it (is_overflowed). The
  // state is then dead, and stays so. `stepper`: working memory.
  bool Advance(std::string_view bytes, Stepper& stepper);

  // Whether the text may end here.
  bool is_accepting() const { return data_->accepting; }
  bool is_dead() const { return data_->items.empty() && !data_->accepting; }
  // Whether it is dead for more ways of reading it, or more returns, than the limits allow.
  bool is_overflowed() const { return data_->overflowed; }

  const Grammar& grammar() const { return *grammar_; }
  std::span<const Item> items() const { return data_->items; }
  // Returns that its frames keep, at most; they share them with other states.
  size_t most_returns() const { return data_->returns; }

 private:
  static constexpr size_t kMaxReadBytes = 512;  // between two times that frames are kept

  struct Data {
    Data() = default;
    Data(const Data&) = delete;
    Data& operator=(const Data&) = delete;
    ~Data();
    std::vector<Item> items;  // each holds a reference to its frame
    size_t returns = 0;       // see most_returns()
    bool accepting = false;
    bool overflowed = false;
  };
  void Keep(const Stepper::Set& set, bool overflowed);
  // Reads at most kMaxReadBytes of `bytes`.
  void Read(std::string_view bytes, Stepper& stepper);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const Data> data_;
};

// The bytes that must come next, at most `most` of them: up to where the text may end or may go on
// in two ways. They say what the text will be, not by which tokens: a model may have several ways
// to write them, so sampling must not skip them (a mask with one token may be skipped).
std::string ForcedBytes(GrammarState state, size_t most, Stepper& stepper);

}  // namespace outrider::grammar
