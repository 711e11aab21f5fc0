// One call that is written as a JSON object, {"name": .., "arguments": {..}}, byte by byte.
// "parameters" is another name of "arguments"; members come in any order, and others than these
// are skipped. Arguments that are a string of JSON text are that text.
//
// Owner: one object. Thread: not synchronised.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "verifier/chat/answer_events.h"
#include "verifier/chat/json_span.h"

namespace outrider {

class CallObject {
 public:
  // Whether a tool may be called by this name; empty: any may.
  using IsTool = std::function<bool(std::string_view name)>;

  // `needs_arguments`: an object without them is no call; else its arguments are {}.
  explicit CallObject(IsTool is_tool = nullptr, bool needs_arguments = false)
      : is_tool_(std::move(is_tool)), needs_arguments_(needs_arguments) {}

  enum class Progress {
    kNoCall,  // the object is none, and nothing has been told of it
    kMore,
    kDone,  // it is complete with this byte
    kOver,  // the call has ended before this byte, without the object's }
  };
  // `out` gets the call's beginning once its name is known and its arguments have begun.
  Progress Read(char c, AnswerEvents& out);
  // Whether `out` has the call's beginning.
  bool has_begun() const { return has_begun_; }

 private:
  enum class State : uint8_t { kStart, kKey, kInKey, kColon, kValue, kInValue, kInScalar, kAfter };
  enum class Member : uint8_t { kName, kArguments, kOther };

  Progress ReadValueStart(char c, AnswerEvents& out);
  Progress ReadScalar(char c, AnswerEvents& out);
  // `c`: the first byte after a value, or a later one.
  Progress ReadAfter(char c, AnswerEvents& out);
  // A value that is complete. False: the object is no call.
  bool EndValue(AnswerEvents& out);
  void AddArguments(std::string_view text, AnswerEvents& out);
  void BeginIfKnown(AnswerEvents& out);
  Progress NoCall() const { return has_begun_ ? Progress::kOver : Progress::kNoCall; }

  IsTool is_tool_;
  bool needs_arguments_;
  State state_ = State::kStart;
  Member member_ = Member::kOther;
  bool has_begun_ = false, has_arguments_ = false, is_string_ = false;
  JsonSpan span_;          // of the value
  std::string text_;       // of a key, a name, a string or a scalar, as it is written
  std::string name_;       // "": not known yet
  std::string arguments_;  // that came before the name
};

}  // namespace outrider
