#include "verifier/chat/call_parser.h"

#include <utility>

#include "verifier/chat/deepseek_calls.h"
#include "verifier/chat/hermes_calls.h"
#include "verifier/chat/llama3_calls.h"
#include "verifier/chat/mistral_calls.h"
#include "verifier/chat/pythonic_calls.h"

namespace outrider {

std::unique_ptr<CallParser> CallParser::Create(ToolFormat format, std::vector<std::string> tools) {
  switch (format) {
    case ToolFormat::kNone:
    case ToolFormat::kHarmony: return nullptr;
    case ToolFormat::kHermes: return std::make_unique<HermesCalls>();
    case ToolFormat::kLlama3Json: return std::make_unique<Llama3Calls>(std::move(tools));
    case ToolFormat::kPythonic: return std::make_unique<PythonicCalls>(std::move(tools));
    case ToolFormat::kMistral: return std::make_unique<MistralCalls>();
    case ToolFormat::kDeepSeekV3:
    case ToolFormat::kDeepSeekV31: return std::make_unique<DeepSeekCalls>();
  }
  return nullptr;
}

void CallParser::AddContent(std::string_view text, AnswerEvents& out) {
  out.AddContent(space_);
  space_.clear();
  out.AddContent(text);
  after_call_ = false;
}

void CallParser::Push(std::string_view text, AnswerEvents& out) {
  for (const char c : text) {
    Byte byte = Read(c, out);
    if (byte == Byte::kContent && !held_.empty()) {
      AddContent(held_, out);
      held_.clear();
      byte = Read(c, out);
    }
    switch (byte) {
      case Byte::kContent:
        if (IsSpace(c)) {
          space_ += c;
        } else {
          AddContent({&c, 1}, out);
        }
        break;
      case Byte::kHeld: held_ += c; break;
      case Byte::kCall:
        held_.clear();
        space_.clear();
        after_call_ = true;
        break;
    }
  }
}

void CallParser::Finish(AnswerEvents& out) {
  if (!held_.empty()) AddContent(std::exchange(held_, {}), out);
  if (!after_call_) AddContent("", out);
}

}  // namespace outrider
