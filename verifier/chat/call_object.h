// Parses one call that is written as a JSON object, {"name": .., "arguments": {..}}, byte by byte.
// "parameters" is accepted for "arguments"; members may come in any order, and unknown ones are
// skipped. If the arguments are a string, it holds JSON text and is unpacked.
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
  // Whether a tool may be called by this name. If empty, any may.
  using IsTool = std::function<bool(std::string_view name)>;

  // `needs_arguments`: an object without arguments is not a call; otherwise its arguments are {}.
  explicit CallObject(IsTool is_tool = nullptr, bool needs_arguments = false)
      : is_tool_(std::move(is_tool)), needs_arguments_(needs_arguments) {}

  enum class Progress {
    kNoCall,  // the object is not a call, and no event has been emitted for it
    kMore,
    kDone,  // it is complete with this byte
    kOver,  // the call ended before this byte, without the object's }
  };
  // `out` gets the start of the call once its name is known and its arguments have begun.
  Progress Read(char c, AnswerEvents& out);
  // Whether `out` has the start of the call.
  bool has_begun() const { return has_begun_; }

 private:
  enum class State : uint8_t { kStart, kKey, kInKey, kColon, kValue, kInValue, kInScalar, kAfter };
  enum class Member : uint8_t { kName, kArguments, kOther };

  Progress ReadValueStart(char c, AnswerEvents& out);
  Progress ReadScalar(char c, AnswerEvents& out);
  // `c` is the first byte after a value, or a later one.
  Progress ReadAfter(char c, AnswerEvents& out);
  // A value is complete. Returns false if the object is not a call.
  bool EndValue(AnswerEvents& out);
  void AddArguments(std::string_view text, AnswerEvents& out);
  void BeginIfKnown(AnswerEvents& out);
  Progress NoCall() const { return has_begun_ ? Progress::kOver : Progress::kNoCall; }

  IsTool is_tool_;
  bool needs_arguments_;
  State state_ = State::kStart;
  Member member_ = Member::kOther;
  bool has_begun_ = false, has_arguments_ = false, is_string_ = false;
  JsonSpan span_;          // finds the end of the value
  std::string text_;       // raw text of a key, a name, a string or a scalar
  std::string name_;       // empty until it is known
  std::string arguments_;  // arguments that came before the name
};

}  // namespace outrider
