// The output side of one generation: which token ends it and what text may be sent.
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
  std::vector<TokenId> stop_tokens;  // EOS among them unless it is ignored; in any order
  int max_tokens = 1;
  // No earlier token ends the output, and no stop string that is complete with it.
  int min_tokens = 0;
  bool skip_special = true;                 // special tokens are no text
  std::vector<TokenId> shown_special = {};  // special tokens that are text all the same; any order
  bool include_stop = false;  // the stop string or stop token that ends the output is text
  // Stop strings are looked for in the text with the special tokens, also where these are skipped.
  bool match_special = false;
};

// Takes out of a text, on its way through a StopMatcher, what only the matcher is to see.
class HiddenText {
 public:
  // The next `bytes` of the text that the matcher sees.
  void Push(size_t bytes, bool hidden);
  // The next bytes that the matcher gives out, without those that are hidden.
  std::string Shown(std::string_view text);

 private:
  struct Span {
    size_t begin, end;
  };
  std::deque<Span> spans_;  // hidden, by the text's bytes; of those that are not given out yet
  size_t seen_ = 0, given_ = 0;
};

class OutputStream {
 public:
  // The tokenizer must outlive it.
  OutputStream(const Tokenizer& tokenizer, OutputOptions options);

  // Takes the next token. `text` gains what may be sent now. A value: the generation is over, and
  // the held-back text has been added.
  std::optional<FinishReason> Push(TokenId token, std::string* text);

  int tokens() const { return count_; }

 private:
  // The token's text for the stop matcher.
  std::string TextOf(TokenId token);
  // Adds what the matcher lets out.
  void Show(const StopMatcher::Step& step, std::string* text);

  OutputOptions options_;  // stop_tokens and shown_special ascending
  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  HiddenText hidden_;
  int count_ = 0;
};

}  // namespace outrider
