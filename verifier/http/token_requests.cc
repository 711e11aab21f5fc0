#include "verifier/http/token_requests.h"

#include <nlohmann/json.hpp>
#include <string>
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

constexpr size_t kMaxTokensShown = 262'144;

// The answer of /tokenize as text, because a tree of JSON would take several times the memory.
std::string TokensShown(const std::vector<TokenId>& tokens, const ApiModel& model, bool strings) {
  const auto list = [&](const auto& shown) {
    std::string text = "[";
    for (const TokenId token : tokens) {
      if (text.size() > 1) text += ',';
      text += shown(token);
    }
    return text + ']';
  };
  std::string text = R"({"count":)" + std::to_string(tokens.size()) + R"(,"max_model_len":)" +
                     std::to_string(model.limits.max_context) + R"(,"tokens":)";
  text += list([](TokenId token) { return std::to_string(token); });
  text += R"(,"token_strs":)";
  text += strings ? list([&](TokenId token) { return Dump(model.tokenizer->IdToToken(token)); })
                  : "null";
  return text + '}';
}

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
  const std::string_view text = body["prompt"].text();
  // A text may be longer than the context, because clients ask whether it is.
  const size_t most = model.tokenizer->MostBytes(static_cast<int>(kMaxTokensShown));
  if (text.size() > most) {
    return InvalidArgument("prompt: " + std::to_string(text.size()) + " bytes of text, but the " +
                           std::to_string(kMaxTokensShown) +
                           " tokens that an answer lists hold at most " + std::to_string(most) +
                           " bytes; send the text in parts");
  }
  auto tokens = EncodeText(*model.tokenizer, text, options);
  if (!tokens.ok()) return tokens.status().Annotate("prompt");
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
  if (tokens.size() > kMaxTokensShown) {
    return InvalidArgument(std::string(chat ? "messages: " : "prompt: ") +
                           std::to_string(tokens.size()) + " tokens; an answer lists at most " +
                           std::to_string(kMaxTokensShown) + ", so send the text in parts");
  }
  return TokensShown(tokens, model, strings);
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
      return InvalidArgument("tokens: " + tokens[i].Shown() + " is not a token id below " +
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
