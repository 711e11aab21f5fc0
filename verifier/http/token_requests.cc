#include "verifier/http/token_requests.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "verifier/http/chat_fields.h"
#include "verifier/http/generation_fields.h"
#include "verifier/http/json_text.h"
#include "verifier/http/request_fields.h"
#include "verifier/http/request_values.h"
#include "verifier/http/tool_fields.h"

namespace outrider {
namespace {

Result<std::vector<TokenId>> TokensOfChat(const JsonValue& body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const std::vector<ChatMessage> messages, MessagesOf(body["messages"], model));
  OUTRIDER_ASSIGN(ChatOptions options, ChatOptionsOf(body, model));
  OUTRIDER_ASSIGN(const ToolFields tools, ToolFieldsOf(body, model));
  options.tools = tools.for_template;
  auto tokens = model.chat_template.Encode(*model.tokenizer, messages, options);
  if (!tokens.ok()) return tokens.status().Annotate("messages");
  return tokens;
}

Result<std::vector<TokenId>> TokensOfPrompt(const JsonValue& body, const ApiModel& model) {
  if (!body["prompt"].is_string()) return body["prompt"].Wrong("a string");
  OUTRIDER_ASSIGN(const PromptTextOptions options, PromptTextOf(body));
  auto text = model.tokenizer->Encode(body["prompt"].text(), options.parse_special);
  if (!text.ok()) return text.status().Annotate("prompt");
  std::vector<TokenId> tokens;
  if (options.add_special_tokens) tokens = model.tokenizer->prompt_prefix();
  tokens.insert(tokens.end(), text->begin(), text->end());
  return tokens;
}

}  // namespace

Result<std::string> Tokenize(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const JsonValue json, ParseBody(body));
  OUTRIDER_TRY(CheckModel(json, model));
  const bool chat = !json["messages"].is_null();
  OUTRIDER_TRY(CheckFields(chat ? FieldsOf::kTokenizeChat : FieldsOf::kTokenize, json,
                           model.ignore_unknown));
  bool strings = false;
  OUTRIDER_TRY(json["return_token_strs"].Read(&strings));
  OUTRIDER_ASSIGN(const std::vector<TokenId> tokens,
                  chat ? TokensOfChat(json, model) : TokensOfPrompt(json, model));
  Json answer = {{"count", tokens.size()},
                 {"max_model_len", model.limits.max_context},
                 {"tokens", tokens},
                 {"token_strs", nullptr}};
  if (strings) {
    Json list = Json::array();
    for (const TokenId token : tokens) list.push_back(model.tokenizer->IdToToken(token));
    answer["token_strs"] = std::move(list);
  }
  return Dump(answer);
}

Result<std::string> Detokenize(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const JsonValue json, ParseBody(body));
  OUTRIDER_TRY(CheckModel(json, model));
  OUTRIDER_TRY(CheckFields(FieldsOf::kDetokenize, json, model.ignore_unknown));
  const JsonValue tokens = json["tokens"];
  if (!tokens.is_array()) return tokens.Wrong("an array of token ids");
  std::vector<TokenId> ids;
  size_t bytes = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Result<int> id = tokens[i].Int();
    if (!id.ok() || *id < 0 || *id >= model.limits.vocab_size) {
      return InvalidArgument("tokens: " + tokens[i].Shown() + " is no token id below " +
                             std::to_string(model.limits.vocab_size));
    }
    ids.push_back(*id);
    bytes += model.tokenizer->TokenBytes(*id).size();
    if (bytes > Tokenizer::kMaxTextBytes) {
      return InvalidArgument("tokens: a text of more than " +
                             std::to_string(Tokenizer::kMaxTextBytes) + " bytes");
    }
  }
  return Dump({{"prompt", model.tokenizer->Decode(ids, /*skip_special=*/false)}});
}

}  // namespace outrider
