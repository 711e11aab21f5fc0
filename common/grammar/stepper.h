// Runs the automaton on bytes with all of its stacks at once. A stack is a list of frames, and
// stacks share frames: all calls of one rule that begin at the same byte share one (a
// graph-structured stack, as in Tomita's parsing and in GLL). So an ambiguous grammar takes no more
// items than there are pairs of a node and a frame, and equal ones are one item.
//
// Thread: one owner; a Stepper is the working memory of one thread, and is reused.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/grammar/automaton.h"

namespace outrider::grammar {

struct Frame;

// Where one caller continues when a rule has matched.
struct Return {
  uint32_t node = 0;
  uint32_t count = 0;            // of the caller, if it is counted
  const Frame* frame = nullptr;  // the caller's; nullptr: the bottom
  const Return* next = nullptr;
};

struct Frame {
  const Return* returns = nullptr;
  int32_t num_returns = 0;
  // A Stepper's frames are numbered in ascending order; 0: the frame belongs to a GrammarState.
  uint64_t serial = 0;
};

// One parse of what has been read.
struct Item {
  uint32_t node = 0;
  uint32_t count = 0;            // matches so far, if its rule is a counted one
  const Frame* frame = nullptr;  // to which its rule returns; nullptr: the bottom
  bool operator==(const Item&) const = default;
};

// More items at once end a state: Stepper::overflowed.
inline constexpr size_t kMaxItems = 512;
// More steps for one byte do so, too; finding kMaxItems items takes about as many.
inline constexpr int64_t kMaxStepsOfByte = 1 << 17;
// So do more returns of one frame, and more in one Stepper at once (32 bytes each), including those
// for a whole token.
inline constexpr int32_t kMaxFrameReturns = 512;
inline constexpr size_t kMaxStepperReturns = 1 << 19;

// Objects that are allocated one by one and freed together, down to a mark.
template <class T>
class MarkedPool {
 public:
  T* Take() {
    if (used_ == kChunk * chunks_.size()) chunks_.push_back(std::make_unique<T[]>(kChunk));
    T* const out = &chunks_[used_ / kChunk][used_ % kChunk];
    ++used_;
    *out = T();
    return out;
  }
  size_t mark() const { return used_; }
  void GiveBack(size_t mark) { used_ = mark; }

 private:
  static constexpr size_t kChunk = 256;
  std::vector<std::unique_ptr<T[]>> chunks_;
  size_t used_ = 0;
};

class Stepper {
 public:
  // The result of a step: items of nodes that can read a byte, and whether the bottom was reached.
  struct Set {
    std::vector<Item> items;
    bool ended = false;
    void Clear() {
      items.clear();
      ended = false;
    }
    bool empty() const { return items.empty() && !ended; }
  };
  struct Mark {
    size_t frames = 0;
    size_t returns = 0;
  };

  // The items before the first byte of a text.
  void Start(const Automaton& automaton, Set& out);
  // The items after `frame`'s rule has matched. REQUIRES: not nullptr.
  void Resume(const Automaton& automaton, const Frame& frame, Set& out);
  // The items after `byte`. `out` must not contain `items`.
  void Step(const Automaton& automaton, std::span<const Item> items, uint8_t byte, Set& out);

  // Frees the frames made since the mark; their items must not be used.
  Mark mark() const { return {frames_.mark(), returns_.mark()}; }
  void GiveBack(const Mark& mark) {
    frames_.GiveBack(mark.frames);
    returns_.GiveBack(mark.returns);
  }

  // Edges and items compared since the Stepper was made.
  int64_t steps() const { return steps_; }
  // Adds its owner's work to the steps.
  void Charge(int64_t steps) { steps_ += steps; }
  // Whether a set exceeded kMaxItems, kMaxStepsOfByte, kMaxFrameReturns or kMaxStepperReturns since
  // this was last cleared; it then lacks some of its items.
  bool overflowed() const { return overflowed_; }
  void ClearOverflow() { overflowed_ = false; }

 private:
  // The frame of a rule's calls, made for the set with this serial or an older one.
  struct Called {
    uint64_t serial = 0;
    Frame* frame = nullptr;
  };

  void Begin(const Automaton& automaton);
  void Reach(const Item& item);
  void Close(const Automaton& automaton, Set& out);
  void Call(const Automaton& automaton, const CallEdge& call, const Item& caller);
  void Accept(const Automaton& automaton, const Item& item, Set& out);

  MarkedPool<Frame> frames_;
  MarkedPool<Return> returns_;
  std::vector<Item> reached_;   // of the set being made; those not yet processed come last
  std::vector<Called> called_;  // by rule
  uint64_t last_serial_ = 0;
  uint64_t first_serial_ = 0;  // of frames of the set being made
  int64_t steps_ = 0;
  int64_t steps_before_ = 0;  // before the set being made
  bool overflowed_ = false;
};

}  // namespace outrider::grammar
