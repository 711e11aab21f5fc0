// A call's arguments where they come without an object around them: an object of their own, passed
// on byte by byte.
//
// Owner: one call. Thread: not synchronised.
#pragma once

#include <string_view>

#include "verifier/chat/answer_events.h"
#include "verifier/chat/json_span.h"

namespace outrider {

class RawArguments {
 public:
  // `c`: the { that they begin with.
  void Begin(std::string_view name, char c, AnswerEvents& out) {
    span_ = JsonSpan();
    out.BeginCall(name);
    Read(c, out);
  }
  // Whether they end with this byte.
  bool Read(char c, AnswerEvents& out) {
    out.AddArguments({&c, 1});
    return span_.Ends(c);
  }

 private:
  JsonSpan span_;
};

}  // namespace outrider
