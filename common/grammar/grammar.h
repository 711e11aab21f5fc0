// A grammar that a generated text must follow, compiled once and shared by all that use it.
//
//   OUTRIDER_ASSIGN(auto grammar, Grammar::Compile({.kind = GrammarSource::Kind::kRegex,
//                                                   .text = "[0-9]+"}));
//   GrammarState state(grammar);               // one for each place in a text: grammar_state.h
//   masks.Fill(state, stepper, bits);          // which tokens may come: grammar_masks.h
//
// docs/structured_output.md says what each source supports.
//
// Thread: any (immutable).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/automaton.h"
#include "common/grammar/limits.h"

namespace outrider::grammar {

// A rule of a GBNF text that JSON Schema defines: `text` refers to it by `name`.
struct SchemaRule {
  std::string name;
  std::string schema;  // a JSON Schema, an object
  // Which part of the document the rule matches: the members to go through from its root.
  // References within that part are those of the whole document.
  std::vector<std::string> path = {};

  bool operator==(const SchemaRule&) const = default;
};

struct GrammarSource {
  enum class Kind {
    kJsonObject,  // any JSON object
    kJsonSchema,  // `text`: a JSON Schema, an object
    kRegex,       // `text`: a regular expression that the whole text matches
    kChoice,      // the text is one of `choices`
    kGbnf,        // `text`: a grammar in llama.cpp's GBNF, whose rule `root` the text matches
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;
  std::vector<SchemaRule> schemas = {};  // of kGbnf

  size_t bytes() const;
  bool operator==(const GrammarSource&) const = default;
};

class Grammar {
 public:
  // Time and memory are bounded by `limits`; a worker thread's affair all the same.
  // kInvalidArgument: what is wrong in the source and where, what of it is not supported (named),
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
