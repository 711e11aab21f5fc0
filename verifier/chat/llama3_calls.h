// Calls as Llama 3.1 and later models write them, instead of an answer or after a marker:
//   {"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}
//   <|python_tag|>{"name": "f", "parameters": {"a": 1}}
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "verifier/chat/call_object.h"
#include "verifier/chat/call_parser.h"
#include "verifier/chat/marker_match.h"

namespace outrider {

class Llama3Calls final : public CallParser {
 public:
  explicit Llama3Calls(std::vector<std::string> tools) : tools_(std::move(tools)) {}

 protected:
  Byte Read(char c, AnswerEvents& out) override;

 private:
  enum class State : uint8_t { kStart, kText, kObject, kBetween };
  void BeginObject();
  Byte ReadText(char c);
  Byte ReadObject(char c, AnswerEvents& out);
  Byte ReadBetween(char c, AnswerEvents& out);

  const std::vector<std::string> tools_;
  State state_ = State::kStart;
  CallObject object_;
  MarkerMatch marker_;
};

}  // namespace outrider
