// A call's arguments in formats that write them as an object of their own. They are passed on byte
// by byte.
//
// Owner: one call. Thread: not synchronised.
#pragma once

#include <string_view>

#include "verifier/chat/answer_events.h"
#include "verifier/chat/json_span.h"

namespace outrider {

class RawArguments {
 public:
  // `c`: the { that begins the arguments.
  void Begin(std::string_view name, char c, AnswerEvents& out) {
    span_ = JsonSpan();
    out.BeginCall(name);
    Read(c, out);
  }
  // Returns whether this byte ends the arguments.
  bool Read(char c, AnswerEvents& out) {
    out.AddArguments({&c, 1});
    return span_.Ends(c);
  }

 private:
  JsonSpan span_;
};

}  // namespace outrider
