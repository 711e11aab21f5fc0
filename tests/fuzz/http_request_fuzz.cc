// Bodies of HTTP requests (the first byte: completion or chat, and the chat's template). Accepted
// bodies are valid for the engine, and every rejection states its reason in JSON.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/http/api_error.h"
#include "verifier/http/api_request.h"

using outrider::fuzz::Require;

namespace {

constexpr int kVocab = outrider::testing::kAsciiTokens;

const outrider::Tokenizer& Tokens() {
  static const auto tokenizer =
      std::move(outrider::Tokenizer::FromJson(outrider::testing::AsciiTokenizerJson())).value();
  return *tokenizer;
}

outrider::grammar::GrammarCache& Grammars() {
  static const auto grammars = std::move(outrider::grammar::GrammarCache::Create(
                                             Tokens(), std::vector<outrider::TokenId>{95}, kVocab))
                                   .value();
  return *grammars;
}

// Outputs everything that a request can pass to a template.
outrider::ChatTemplate VariablesTemplate() {
  return outrider::ChatTemplate::FromText(
      "{% for m in messages %}{{ m | tojson }}{% for part in m.content %}{{ part }}{% endfor %}"
      "{% endfor %}{{ tools | tojson }}{{ x | default(y) | string }}{{ documents }}");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  const int kind = in.Byte();
  outrider::ApiModel model;
  model.name = "m";
  model.tokenizer = &Tokens();
  model.chat_template =
      (kind >> 1) % 2 == 0 ? outrider::ChatTemplate::ChatMl() : VariablesTemplate();
  model.answer_format = {.tools = outrider::ToolFormat::kHermes,
                         .reasoning = outrider::ReasoningFormat::kQwen3};
  model.limits.vocab_size = kVocab;
  model.limits.max_context = 256;
  model.limits.kv_tokens = 256;
  model.limits.max_draft_length = 8;
  model.limits.max_paths = 4;
  model.limits.max_draft_tokens = 24;
  model.grammars = &Grammars();
  const bool chat = kind % 2 == 1;
  const auto parsed =
      chat ? outrider::ParseChat(in.Rest(), model) : outrider::ParseCompletion(in.Rest(), model);
  if (!parsed.ok()) {
    const int code = outrider::HttpCodeOf(parsed.status());
    Require(code == 400 || code == 404);
    const auto body = nlohmann::json::parse(outrider::ErrorJson(parsed.status()));
    Require(!body.at("error").at("message").get<std::string>().empty());
    return 0;
  }
  Require(parsed->chat == chat && parsed->choices >= 1 && !parsed->prompts.empty());
  Require(parsed->choices * static_cast<int>(parsed->prompts.size()) <= outrider::kMaxChoices);
  const outrider::AnswerReading& reading = parsed->reading;
  Require((reading.format.tools == outrider::ToolFormat::kNone) == reading.tools.empty());
  Require(!parsed->include_usage || parsed->stream);
  for (const outrider::GenerationRequest& prompt : parsed->prompts) {
    Require(outrider::Validate(prompt, model.limits).ok());
    Require(prompt.sampling.grammar.has_value() == (prompt.grammar_masks != nullptr));
    Require(outrider::Validate(outrider::ChoiceOf(prompt, parsed->choices - 1), model.limits).ok());
  }
  return 0;
}
