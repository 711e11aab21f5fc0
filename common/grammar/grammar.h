// A grammar that a generated text must follow, compiled once and shared by all its users.
//
//   OUTRIDER_ASSIGN(auto grammar, Grammar::Compile({.kind = GrammarSource::Kind::kRegex,
//                                                   .text = "[0-9]+"}));
//   GrammarState state(grammar);               // one per position in a text: grammar_state.h
//   masks.Fill(state, stepper, bits);          // which tokens may follow: grammar_masks.h
//
// docs/structured_output.md says what each source supports.
//
// Thread: any (immutable).
#pragma once

#include <memory>

#include "common/base/status.h"
#include "common/grammar/automaton.h"
#include "common/grammar/limits.h"
#include "common/spec/grammar_source.h"

namespace outrider::grammar {

class Grammar {
 public:
  // Time and memory are bounded by `limits`; call it on a worker thread all the same.
  // kInvalidArgument: what is wrong in the source and where, which part is not supported (named),
  // or which limit it exceeds.
  static Result<std::shared_ptr<const Grammar>> Compile(const GrammarSource& source,
                                                        const GrammarLimits& limits = {});

  const Automaton& automaton() const { return automaton_; }
  size_t bytes() const { return sizeof(*this) + automaton_.bytes(); }

 private:
  explicit Grammar(Automaton automaton) : automaton_(std::move(automaton)) {}

  const Automaton automaton_;
};

}  // namespace outrider::grammar
