#include "common/grammar/grammar_state.h"

#include <atomic>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace outrider::grammar {
namespace {

// A frame held by states, with a count of references, from items or other frames' returns.
struct HeldFrame : Frame {
  std::atomic<uint32_t> references{0};
  std::vector<Return> list;  // `returns`
};

void AddReference(const Frame* frame) {
  if (frame == nullptr) return;
  const auto* held = static_cast<const HeldFrame*>(frame);
  const_cast<HeldFrame*>(held)->references.fetch_add(1, std::memory_order_relaxed);
}

// Without recursion, because a deeply nested text has a long chain of frames.
void DropReference(const Frame* first) {
  std::vector<const Frame*> left = {first};
  while (!left.empty()) {
    const Frame* const frame = left.back();
    left.pop_back();
    if (frame == nullptr) continue;
    auto* const held = const_cast<HeldFrame*>(static_cast<const HeldFrame*>(frame));
    if (held->references.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    for (const Return& back : held->list) left.push_back(back.frame);
    delete held;
  }
}

// Converts frames of a Stepper to held ones.
class FrameKeeper {
 public:
  const Frame* Keep(const Frame* frame) {
    const Frame* const kept = Find(frame);
    // New frames are filled after all exist, because they refer to each other.
    while (filled_ < order_.size()) Fill(*order_[filled_++]);
    AddReference(kept);
    return kept;
  }
  // Returns of the frames that it has made.
  size_t num_returns() const { return num_returns_; }

 private:
  const Frame* Find(const Frame* frame) {
    if (frame == nullptr || frame->serial == 0) return frame;
    const auto [found, is_new] = kept_.try_emplace(frame, nullptr);
    if (is_new) {
      found->second = new HeldFrame;
      order_.push_back(frame);
    }
    return found->second;
  }
  void Fill(const Frame& frame) {
    std::vector<Return> list;
    for (const Return* back = frame.returns; back != nullptr; back = back->next) {
      list.push_back({back->node, back->count, Find(back->frame), nullptr});
      AddReference(list.back().frame);
    }
    for (size_t i = 0; i + 1 < list.size(); ++i) list[i].next = &list[i + 1];
    HeldFrame& held = *kept_.at(&frame);
    held.list = std::move(list);
    held.returns = held.list.data();
    held.num_returns = frame.num_returns;
    num_returns_ += held.list.size();
  }

  std::unordered_map<const Frame*, HeldFrame*> kept_;
  std::vector<const Frame*> order_;
  size_t filled_ = 0;
  size_t num_returns_ = 0;
};

// Returns of all frames reachable from `items`.
size_t CountReturns(std::span<const Item> items) {
  std::unordered_set<const Frame*> seen = {nullptr};
  std::vector<const Frame*> left;
  size_t count = 0;
  const auto add = [&](const Frame* frame) {
    if (seen.insert(frame).second) left.push_back(frame);
  };
  for (const Item& item : items) add(item.frame);
  while (!left.empty()) {
    const auto* const held = static_cast<const HeldFrame*>(left.back());
    left.pop_back();
    count += held->list.size();
    for (const Return& back : held->list) add(back.frame);
  }
  return count;
}

}  // namespace

GrammarState::Data::~Data() {
  for (const Item& item : items) DropReference(item.frame);
}

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  Stepper stepper;
  Stepper::Set set;
  stepper.Start(grammar_->automaton(), set);
  Keep(set, stepper.overflowed());
}

void GrammarState::Keep(const Stepper::Set& set, bool overflowed) {
  const auto data = std::make_shared<Data>();
  data->overflowed = overflowed;
  if (!overflowed) {
    FrameKeeper keeper;
    data->accepting = set.ended;
    data->items.reserve(set.items.size());
    for (const Item& item : set.items) {
      data->items.push_back({item.node, item.count, keeper.Keep(item.frame)});
    }
    data->returns = keeper.num_returns() + (data_ == nullptr ? 0 : data_->returns);
    if (data->returns > 2 * kMaxKeptReturns) {
      data->returns = CountReturns(data->items);
      if (data->returns > kMaxKeptReturns) return Keep({}, /*overflowed=*/true);
    }
  }
  data_ = data;
}

void GrammarState::Read(std::string_view bytes, Stepper& stepper) {
  const Automaton& automaton = grammar_->automaton();
  const Stepper::Mark mark = stepper.mark();
  stepper.ClearOverflow();
  Stepper::Set sets[2];
  std::span<const Item> items = data_->items;
  size_t which = 0;
  for (const char c : bytes) {
    which = 1 - which;
    stepper.Step(automaton, items, static_cast<uint8_t>(c), sets[which]);
    items = sets[which].items;
    if (stepper.overflowed()) break;
  }
  Keep(sets[which], is_overflowed() || stepper.overflowed());
  stepper.ClearOverflow();
  stepper.GiveBack(mark);
}

bool GrammarState::Advance(std::string_view bytes, Stepper& stepper) {
  while (!bytes.empty() && !is_overflowed()) {
    const std::string_view next = bytes.substr(0, kMaxReadBytes);
    bytes.remove_prefix(next.size());
    Read(next, stepper);
  }
  return !is_dead();
}

}  // namespace outrider::grammar
