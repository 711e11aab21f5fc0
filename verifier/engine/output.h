// The output side of a generation: which token ends it and which text may be sent.
//
// Thread: the engine thread.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/types.h"
#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "common/text/tokenizer.h"
#include "verifier/engine/sink.h"

namespace outrider {

struct OutputOptions {
  std::vector<std::string> stop_strings;
  std::vector<TokenId> stop_tokens;  // include EOS unless it is ignored; in any order
  int max_tokens = 1;
  // Neither an earlier token nor a stop string that it completes ends the output.
  int min_tokens = 0;
  bool skip_special = true;                 // special tokens add no text
  std::vector<TokenId> shown_special = {};  // special tokens that add text all the same; any order
  bool include_stop = false;  // add the stop string or stop token that ends the output to the text
  // Leaves out a character that the output ends within, so that the text is the beginning of one
  // that the grammar allows; otherwise U+FFFD stands for it.
  bool follows_grammar = false;
  // Matches stop strings against the text with special tokens, even if these are skipped.
  bool match_special = false;
};

// Removes from a text, after it has passed a StopMatcher, what only the matcher may see.
class HiddenText {
 public:
  // The next `bytes` of the text that the matcher sees.
  void Push(size_t bytes, bool hidden);
  // Returns the next bytes that the matcher releases, without the hidden ones.
  std::string Shown(std::string_view text);

 private:
  struct Span {
    size_t begin, end;
  };
  std::deque<Span> spans_;  // hidden bytes of the text, not released yet
  size_t seen_ = 0, given_ = 0;
};

class OutputStream {
 public:
  // The tokenizer must outlive it.
  OutputStream(const Tokenizer& tokenizer, OutputOptions options);

  // Takes the next token and appends the text that may be sent now. Returns a value if the
  // generation is over; the held-back text has then been appended.
  std::optional<FinishReason> Push(TokenId token, std::string* text);

  int tokens() const { return count_; }

 private:
  // The token's text for the stop matcher.
  std::string TextOf(TokenId token);
  // Appends the text that the matcher releases.
  void Show(const StopMatcher::Step& step, std::string* text);

  OutputOptions options_;  // stop_tokens and shown_special in ascending order
  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  HiddenText hidden_;
  int count_ = 0;
};

}  // namespace outrider
