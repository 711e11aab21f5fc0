// The output side of one generation: which token ends it and what text may be sent.
//
// Thread: the engine thread.
#pragma once

#include <optional>
#include <string>
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
  OutputOptions options_;  // stop_tokens ascending
  Detokenizer detokenizer_;
  StopMatcher stops_;
  int count_ = 0;
};

}  // namespace outrider
