// A text's position in its grammar. It is a value that copies in time independent of the text, so
// that each node of a draft tree can have its own; states share common parts.
//
// Thread: one owner each; copies may be used and destroyed on other threads.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/grammar/grammar.h"
#include "common/grammar/stepper.h"

namespace outrider::grammar {

// A state with more returns than this is overflowed; a return takes some 32 to 100 bytes. They are
// counted again whenever their number may have doubled.
inline constexpr size_t kMaxKeptReturns = 1 << 19;

class GrammarState {
 public:
  // Before the first byte.
  explicit GrammarState(std::shared_ptr<const Grammar> grammar);

  // Reads `bytes` in linear time. Returns false if no text of the grammar continues like this, or
  // the grammar is too ambiguous to keep all parses (is_overflowed). The state is then dead, and
  // remains so. `stepper`: working memory.
  bool Advance(std::string_view bytes, Stepper& stepper);

  // Whether the text may end here.
  bool is_accepting() const { return data_->accepting; }
  bool is_dead() const { return data_->items.empty() && !data_->accepting; }
  // Whether it is dead because of more parses, or more returns, than the limits allow.
  bool is_overflowed() const { return data_->overflowed; }

  const Grammar& grammar() const { return *grammar_; }
  std::span<const Item> items() const { return data_->items; }
  // Upper bound of the returns in its frames, which it shares with other states.
  size_t most_returns() const { return data_->returns; }

 private:
  static constexpr size_t kMaxReadBytes = 512;  // before frames are kept

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

}  // namespace outrider::grammar
