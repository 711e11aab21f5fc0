#include "common/grammar/stepper.h"

#include <algorithm>

#include "common/grammar/rule_set.h"

namespace outrider::grammar {

void Stepper::Begin(const Automaton& automaton) {
  reached_.clear();
  if (called_.size() < automaton.rules().size()) called_.resize(automaton.rules().size());
  first_serial_ = last_serial_ + 1;
  steps_before_ = steps_;
}

void Stepper::Reach(const Item& item) {
  if (overflowed_) return;
  steps_ += static_cast<int64_t>(reached_.size()) + 1;
  if (std::find(reached_.begin(), reached_.end(), item) != reached_.end()) return;
  if (reached_.size() == kMaxItems || steps_ - steps_before_ > kMaxStepsOfByte) {
    overflowed_ = true;
    return;
  }
  reached_.push_back(item);
}

void Stepper::Call(const Automaton& automaton, const CallEdge& call, const Item& caller) {
  ++steps_;
  Called& called = called_[call.rule];
  if (called.serial < first_serial_) {
    called = {++last_serial_, frames_.Take()};
    called.frame->serial = called.serial;
    Reach({automaton.rules()[call.rule].start, 0, called.frame});
  }
  Frame* const frame = called.frame;
  // The rule ends at a later byte at the earliest, so a caller may still be added.
  Return* const back = returns_.Take();
  *back = {call.target, caller.count, caller.frame, frame->returns};
  frame->returns = back;
  ++frame->num_returns;
  if (frame->num_returns > kMaxFrameReturns || returns_.mark() > kMaxStepperReturns) {
    overflowed_ = true;
  }
}

void Stepper::Accept(const Automaton& automaton, const Item& item, Set& out) {
  Item ended = item;
  const Automaton::RuleInfo& rule = automaton.rules()[automaton.node(item.node).rule];
  if (rule.max_count != 0) {
    ++ended.count;
    const bool may_go_on =
        rule.max_count == kUnbounded || ended.count < static_cast<uint32_t>(rule.max_count);
    const bool may_end = ended.count >= static_cast<uint32_t>(rule.min_count);
    if (rule.max_count == kUnbounded && may_end) {
      ended.count = static_cast<uint32_t>(rule.min_count);  // higher counts are equivalent
    }
    if (may_go_on) Reach({rule.start, ended.count, item.frame});
    if (!may_end) return;
  }
  if (item.frame == nullptr) {
    out.ended = true;
    return;
  }
  // The rule matches nothing, and its callers have a path around it.
  if (item.frame->serial >= first_serial_) return;
  for (const Return* back = item.frame->returns; back != nullptr; back = back->next) {
    Reach({back->node, back->count, back->frame});
  }
}

void Stepper::Close(const Automaton& automaton, Set& out) {
  for (size_t next = 0; next < reached_.size() && !overflowed_; ++next) {
    const Item item = reached_[next];  // a copy: reached_ grows
    const Automaton::Node& node = automaton.node(item.node);
    ++steps_;
    if (!automaton.byte_edges(item.node).empty()) out.items.push_back(item);
    if (node.is_plain) continue;
    for (const CallEdge& call : automaton.call_edges(item.node)) {
      if (overflowed_) return;
      Call(automaton, call, item);
    }
    for (const uint32_t rule : automaton.tail_calls(item.node)) {
      Reach({automaton.rules()[rule].start, 0, item.frame});
    }
    if (node.accepts) Accept(automaton, item, out);
    if (steps_ - steps_before_ > kMaxStepsOfByte) overflowed_ = true;
  }
}

void Stepper::Start(const Automaton& automaton, Set& out) {
  out.Clear();
  Begin(automaton);
  Reach({automaton.rules()[automaton.root()].start, 0, nullptr});
  Close(automaton, out);
}

void Stepper::Resume(const Automaton& automaton, const Frame& frame, Set& out) {
  out.Clear();
  Begin(automaton);
  for (const Return* back = frame.returns; back != nullptr; back = back->next) {
    Reach({back->node, back->count, back->frame});
  }
  Close(automaton, out);
}

void Stepper::Step(const Automaton& automaton, std::span<const Item> items, uint8_t byte,
                   Set& out) {
  out.Clear();
  Begin(automaton);
  for (const Item& item : items) {
    for (const ByteEdge& edge : automaton.byte_edges(item.node)) {
      ++steps_;
      if (byte < edge.low) break;  // so do those after it
      if (byte > edge.high) continue;
      // The common case needs no closure.
      if (items.size() == 1 && automaton.node(edge.target).is_plain && reached_.empty()) {
        const auto edges = automaton.byte_edges(item.node);
        const bool is_last = &edge == &edges.back() || (&edge + 1)->low > byte;
        if (is_last) {
          out.items.push_back({edge.target, item.count, item.frame});
          return;
        }
      }
      Reach({edge.target, item.count, item.frame});
    }
  }
  Close(automaton, out);
}

}  // namespace outrider::grammar
