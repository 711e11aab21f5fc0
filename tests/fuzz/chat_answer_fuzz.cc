// Answers of chats (the first two bytes: how they are parsed; the next two: where the text is
// split). Whatever a model writes, pieces give the same events as the whole, every call has a name,
// and if nothing was parsed out of the text, the text is the content.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "verifier/chat/answer_reader.h"

namespace outrider::fuzz {
namespace {

AnswerReading ReadingOf(Input& in) {
  const std::vector<std::string> tools = ToolFormatNames(), reasonings = ReasoningFormatNames();
  AnswerReading reading{.tools = {"f", "g"}};
  reading.format.tools = ToolFormatOf(tools[static_cast<size_t>(in.Below(8))]);
  const int kind = in.Byte();
  reading.format.reasoning = ReasoningFormatOf(reasonings[static_cast<size_t>(kind % 8 % 5)]);
  reading.opens_reasoning = (kind & 8) != 0;
  return reading;
}

// Events as one text; the byte before each is its kind.
std::string Read(const AnswerReading& reading, const std::vector<std::string_view>& pieces,
                 std::string* content) {
  AnswerReader reader(reading);
  std::string told;
  AnswerEvent::Kind last = AnswerEvent::Kind::kCall;
  bool has_call = false;
  const auto add = [&](const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) {
      Require(!event.text.empty());
      has_call = has_call || event.kind == AnswerEvent::Kind::kCall;
      Require(event.kind != AnswerEvent::Kind::kArguments || has_call);
      const bool goes_on = event.kind == last && last != AnswerEvent::Kind::kCall;
      if (!goes_on) told += static_cast<char>(event.kind);
      if (event.kind == AnswerEvent::Kind::kContent) *content += event.text;
      told += event.text;
      last = event.kind;
    }
  };
  for (const std::string_view piece : pieces) add(reader.Push(piece));
  add(reader.Finish());
  return told;
}

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using outrider::fuzz::Read;
  using outrider::fuzz::Require;
  outrider::fuzz::Input in(data, size);
  const outrider::AnswerReading reading = outrider::fuzz::ReadingOf(in);
  const size_t a = in.Byte(), b = a + in.Byte();
  const std::string_view text = in.Rest();
  std::string content, again;
  const std::string whole = Read(reading, {text}, &content);
  const auto part = [&](size_t begin, size_t end) {
    return text.substr(std::min(begin, text.size()), end - begin);
  };
  Require(Read(reading, {part(0, a), part(a, b), part(b, text.size() + b)}, &again) == whole);
  const bool is_plain = whole.size() == content.size() + 1;
  // Harmony's markers are dropped wherever they are.
  const bool may_drop = reading.format.is_harmony()
                            ? text.find("<|") != text.npos
                            : reading.format.reasoning != outrider::ReasoningFormat::kNone;
  if (is_plain && !may_drop) Require(content == text);
  return 0;
}
