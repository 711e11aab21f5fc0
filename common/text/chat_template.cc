#include "common/text/chat_template.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/input_file.h"
#include "common/gguf/gguf_file.h"
#include "common/json/json.h"
#include "common/text/gguf_tokenizer.h"
#include "common/text/jinja/text_operations.h"

namespace outrider {
namespace {

using jinja::Expression;
using jinja::MarkedText;
using jinja::Statement;
using jinja::Value;

// tokenizer_config.json may list many added tokens
constexpr size_t kMaxFileBytes = size_t{64} << 20;

constexpr std::string_view kChatMlText =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// Message ends that older checkpoints omit from their lists of EOS tokens.
constexpr std::string_view kEndMarkers[] = {"<|im_end|>", "<|eot_id|>"};

// Follows the content of a message that is continued, so that its end is found in the rendered
// text. Transformers' own, because some templates know it. A template that strips contents removes
// the space.
constexpr std::string_view kContentEnd = "CONTINUE_FINAL_MESSAGE_TAG ";

Status NoChatTemplate(const std::string& why) {
  return FailedPrecondition(why +
                            "; start the server with --chat-template FILE or --chat-template "
                            "chatml, or send a prompt to /v1/completions");
}

// Whether `iterable` is something called content: x.content, x['content'], content, or the result
// of a filter, a slice or a condition on one.
bool IsContent(const Expression& iterable) {
  const auto operand = [&](size_t i) {
    return i < iterable.operands.size() && iterable.operands[i] != nullptr &&
           IsContent(*iterable.operands[i]);
  };
  switch (iterable.kind) {
    case Expression::Kind::kName:
    case Expression::Kind::kAttribute: return iterable.name == "content";
    case Expression::Kind::kItem: {
      const Expression& key = *iterable.operands[1];
      return key.kind == Expression::Kind::kConstant && key.constant.is_string() &&
             key.constant.text() == "content";
    }
    case Expression::Kind::kFilter:
    case Expression::Kind::kSlice: return operand(0);
    case Expression::Kind::kConditional: return operand(1) || operand(2);
    default: return false;
  }
}

bool WalksOverContent(const jinja::Body& body) {
  return std::any_of(body.begin(), body.end(), [](const Statement& statement) {
    const bool walks = statement.kind == Statement::Kind::kFor && IsContent(*statement.expression);
    return walks || WalksOverContent(statement.body) || WalksOverContent(statement.otherwise) ||
           (statement.macro != nullptr && WalksOverContent(statement.macro->body)) ||
           std::any_of(statement.branches.begin(), statement.branches.end(),
                       [](const jinja::Branch& branch) { return WalksOverContent(branch.body); });
  });
}

// A token in the checkpoint's files: its text, or an object with it.
std::string TokenText(const JsonValue& value) {
  return value.is_object() ? value["content"].text() : value.text();
}

Result<JsonValue> ReadConfig(const std::filesystem::path& file) {
  return ReadJsonObject(file, {.bytes = kMaxFileBytes, .repeated_members = true});
}

// From tokenizer_config.json, or else from special_tokens_map.json.
Result<ChatTemplate::SpecialTokens> ReadSpecialTokens(const std::filesystem::path& model_dir) {
  constexpr const char* kVariables[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
  ChatTemplate::SpecialTokens tokens;
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const Result<JsonValue> config = ReadConfig(model_dir / file);
    if (config.status().code() == Code::kNotFound) continue;
    if (!config.ok()) return config.status();
    for (const char* variable : kVariables) {
      std::string token = TokenText((*config)[variable]);
      const bool known = std::any_of(tokens.begin(), tokens.end(),
                                     [&](const auto& entry) { return entry.first == variable; });
      if (!known && !token.empty()) tokens.emplace_back(variable, std::move(token));
    }
  }
  return tokens;
}

// The texts of a checkpoint's templates; nullopt: there is none.
struct OwnTexts {
  std::optional<std::string> general;
  std::optional<std::string> tool_use;  // for chats with tools
};

// From the list of templates in tokenizer_config.json. Other names are never used.
Result<OwnTexts> NamedTexts(const JsonValue& list) {
  OwnTexts texts;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonValue name = list[i]["name"], text = list[i]["template"];
    if (!text.is_string()) continue;
    if (name.Is("default")) texts.general = text.text();
    if (name.Is("tool_use")) texts.tool_use = text.text();
  }
  if (texts.general.has_value() || texts.tool_use.has_value()) return texts;
  return list.Wrong("a list of which one is named default or tool_use");
}

// nullopt: there is no such file.
Result<std::optional<std::string>> ReadTemplateFile(const std::filesystem::path& file) {
  Result<std::string> text = ReadFile(file, jinja::kMaxTemplateBytes);
  if (text.ok()) return std::optional(std::move(*text));
  if (text.status().code() == Code::kNotFound) return std::optional<std::string>();
  return text.status();
}

// As in transformers, the configuration counts only if there is no file with a template.
Result<OwnTexts> ReadOwnTexts(const std::filesystem::path& model_dir) {
  OwnTexts files;
  OUTRIDER_ASSIGN(files.general, ReadTemplateFile(model_dir / "chat_template.jinja"));
  OUTRIDER_ASSIGN(files.tool_use,
                  ReadTemplateFile(model_dir / "additional_chat_templates" / "tool_use.jinja"));
  if (files.general.has_value() || files.tool_use.has_value()) return files;
  const Result<JsonValue> config = ReadConfig(model_dir / "tokenizer_config.json");
  if (config.status().code() == Code::kNotFound) return OwnTexts{};
  if (!config.ok()) return config.status();
  const JsonValue found = (*config)["chat_template"];
  if (found.is_null()) return OwnTexts{};
  if (found.is_string()) return OwnTexts{.general = found.text(), .tool_use = {}};
  if (found.is_array()) return NamedTexts(found);
  return found.Wrong("a template, or a list of named ones");
}

// What a model's files say about chats, in any format.
struct ModelTexts {
  ChatTemplate::SpecialTokens special_tokens;
  OwnTexts own;  // if requested
};

Result<ModelTexts> ReadModelTexts(const std::filesystem::path& model_dir, bool with_templates) {
  ModelTexts texts;
  if (const auto path = FindGgufModel(model_dir); path.has_value()) {
    OUTRIDER_ASSIGN(const GgufFile file, GgufFile::Open(*path));
    OUTRIDER_ASSIGN(GgufChat chat, ReadGgufChat(file));
    texts.special_tokens = std::move(chat.special_tokens);
    texts.own = {.general = std::move(chat.general), .tool_use = std::move(chat.tool_use)};
    return texts;
  }
  OUTRIDER_ASSIGN(texts.special_tokens, ReadSpecialTokens(model_dir));
  if (with_templates) {
    OUTRIDER_ASSIGN(texts.own, ReadOwnTexts(model_dir));
  }
  return texts;
}

// `text` up to the end of the last message's content, which kContentEnd follows. As in
// transformers: without the white space before that end if the template strips contents.
Result<MarkedText> UpToContent(const MarkedText& text, const ChatMessage& last) {
  constexpr std::string_view kStrippedEnd = kContentEnd.substr(0, kContentEnd.size() - 1);
  const std::string_view rendered = text.text();
  const size_t end = rendered.rfind(kStrippedEnd);
  if (end != rendered.npos) {
    const MarkedText shown = text.Slice({0, end});
    const MarkedText stripped = jinja::Strip(shown, std::nullopt, jinja::Side::kRight);
    const MarkedText content(last.parts.empty() ? "" : last.parts.back());
    if (stripped.text().ends_with(jinja::Strip(content, std::nullopt, jinja::Side::kBoth).text())) {
      return rendered.substr(end).starts_with(kContentEnd) ? shown : stripped;
    }
  }
  return InvalidArgument(
      "continue_final_message: the chat template does not show the last message as it is");
}

}  // namespace

ChatTemplate::ChatTemplate() : status_(NoChatTemplate("the checkpoint has no chat template")) {}

ChatTemplate ChatTemplate::FromText(std::string_view jinja, SpecialTokens special_tokens) {
  ChatTemplate out;
  Result<jinja::Template> parsed = jinja::Template::Parse(jinja);
  out.status_ = parsed.ok() ? Status()
                            : NoChatTemplate("the checkpoint's chat template cannot be used, " +
                                             parsed.status().message());
  if (!parsed.ok()) return out;
  out.text_ = jinja;
  out.takes_parts_ = WalksOverContent(parsed->body());
  out.template_ = std::move(*parsed);
  out.special_tokens_ = std::move(special_tokens);
  out.knows_developer_ = jinja.find("developer") != jinja.npos;
  for (const std::string_view marker : kEndMarkers) {
    if (jinja.find(marker) != jinja.npos) out.end_markers_.emplace_back(marker);
  }
  out.takes_thinking_ = jinja.find(".thinking") != jinja.npos;
  out.FindFormOfCalls();
  return out;
}

// Transformers passes arguments as objects, which most templates print with `tojson`, and null
// content as none. Some append arguments to a string, and gpt-oss's searches the content, which
// fails; these get texts. Each way is tried once.
void ChatTemplate::FindFormOfCalls() {
  if (text_.find("tool_calls") == text_.npos) return;
  ChatMessage call{.role = "assistant", .parts = {""}, .has_content = false};
  Result<Value> object = jinja::NewDict({});
  if (!object.ok()) return;
  call.tool_calls = {
      {.id = "000000000", .name = "f", .arguments = "{}", .arguments_object = *object}};
  const std::vector<ChatMessage> chat = {
      {.role = "user", .parts = {"a"}},
      call,
      {.role = "tool", .parts = {"b"}, .tool_call_id = "000000000"}};
  for (const bool empty_content : {false, true}) {
    for (const bool argument_text : {false, true}) {
      takes_empty_content_ = empty_content;
      takes_argument_text_ = argument_text;
      if (Render(chat, {}).ok()) return;
    }
  }
  takes_empty_content_ = takes_argument_text_ = false;
}

ChatTemplate ChatTemplate::ChatMl() {
  ChatTemplate out = FromText(kChatMlText);
  out.adds_prompt_prefix_ = true;
  return out;
}

Result<ChatTemplate> ChatTemplate::Load(const std::filesystem::path& model_dir,
                                        const std::string& choice) {
  if (choice == kChatMl) return ChatMl();
  OUTRIDER_ASSIGN(const ModelTexts model, ReadModelTexts(model_dir, choice.empty()));
  SpecialTokens tokens = model.special_tokens;
  if (!choice.empty()) {
    OUTRIDER_ASSIGN(const std::string text, ReadFile(choice, jinja::kMaxTemplateBytes));
    const Status parsed = jinja::Template::Parse(text).status();
    if (!parsed.ok()) return parsed.Annotate(choice);
    return FromText(text, std::move(tokens));
  }
  const OwnTexts& texts = model.own;
  ChatTemplate out = texts.general.has_value() ? FromText(*texts.general, tokens) : ChatTemplate();
  if (texts.tool_use.has_value()) out.SetToolUse(FromText(*texts.tool_use, std::move(tokens)));
  return out;
}

void ChatTemplate::SetToolUse(ChatTemplate tool_use) {
  for (const std::string& marker : tool_use.end_markers_) {
    if (std::find(end_markers_.begin(), end_markers_.end(), marker) == end_markers_.end()) {
      end_markers_.push_back(marker);
    }
  }
  tool_use_ = std::make_shared<const ChatTemplate>(std::move(tool_use));
}

bool ChatTemplate::IsReserved(std::string_view name) {
  constexpr std::string_view kReserved[] = {"messages",
                                            "tools",
                                            "bos_token",
                                            "eos_token",
                                            "add_generation_prompt",
                                            "continue_final_message"};
  return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
}

Result<Value> ChatTemplate::ContentOf(const ChatMessage& message, std::string_view end) const {
  const bool is_null = !message.has_content && !message.tool_calls.empty();
  if (is_null && !takes_empty_content_) return Value();
  if (message.is_array && takes_parts_) {
    std::vector<Value> parts;
    for (const std::string& text : message.parts) {
      const bool is_last = &text == &message.parts.back();
      jinja::Dict part;
      part.Set(Value::Text("type"), Value::Text("text"));
      part.Set(Value::Text("text"),
               Value::Text(is_last ? text + std::string(end) : text, /*from_request=*/true));
      OUTRIDER_ASSIGN(parts.emplace_back(), jinja::NewDict(std::move(part)));
    }
    return jinja::NewList(std::move(parts));
  }
  std::string text;
  for (const std::string& part : message.parts) {
    if (&part != &message.parts.front()) text += "\n";
    text += part;
  }
  text += end;
  return Value::Text(std::move(text), /*from_request=*/true);
}

Result<Value> ChatTemplate::ToolCallsOf(const std::vector<ChatToolCall>& calls) const {
  std::vector<Value> list;
  for (const ChatToolCall& call : calls) {
    jinja::Dict function;
    function.Set(Value::Text("name"), Value::Text(call.name, /*from_request=*/true));
    function.Set(Value::Text("arguments"), takes_argument_text_
                                               ? Value::Text(call.arguments, /*from_request=*/true)
                                               : call.arguments_object);
    jinja::Dict dict;
    dict.Set(Value::Text("id"), Value::Text(call.id, /*from_request=*/true));
    dict.Set(Value::Text("type"), Value::Text("function"));
    OUTRIDER_ASSIGN(Value called, jinja::NewDict(std::move(function)));
    dict.Set(Value::Text("function"), std::move(called));
    OUTRIDER_ASSIGN(list.emplace_back(), jinja::NewDict(std::move(dict)));
  }
  return jinja::NewList(std::move(list));
}

Result<Value> ChatTemplate::MessageOf(const ChatMessage& message, std::string_view end) const {
  jinja::Dict dict;
  const bool is_developer = message.role == "developer";
  dict.Set(Value::Text("role"),
           Value::Text(is_developer && !knows_developer_ ? "system" : message.role));
  OUTRIDER_ASSIGN(Value content, ContentOf(message, end));
  dict.Set(Value::Text("content"), std::move(content));
  const auto set_text = [&](const char* name, const std::string& text) {
    if (text.empty()) return;
    dict.Set(Value::Text(name), Value::Text(text, /*from_request=*/true));
  };
  set_text("name", message.name);
  set_text("tool_call_id", message.tool_call_id);
  set_text("reasoning_content", message.reasoning);
  set_text("reasoning", message.reasoning);
  // Beside calls gpt-oss's template takes content or thinking, and fails with both.
  const bool has_text = std::any_of(message.parts.begin(), message.parts.end(),
                                    [](const std::string& part) { return !part.empty(); });
  if (takes_thinking_ && (message.tool_calls.empty() || !has_text)) {
    set_text("thinking", message.reasoning);
  }
  if (!message.tool_calls.empty()) {
    OUTRIDER_ASSIGN(Value calls, ToolCallsOf(message.tool_calls));
    dict.Set(Value::Text("tool_calls"), std::move(calls));
  }
  return jinja::NewDict(std::move(dict));
}

Result<MarkedText> ChatTemplate::Render(const std::vector<ChatMessage>& messages,
                                        const ChatOptions& options) const {
  if (tool_use_ != nullptr && !options.tools.is_none()) return tool_use_->Render(messages, options);
  OUTRIDER_TRY(status_);
  if (messages.empty()) return InvalidArgument("a chat needs a message");
  jinja::Dict variables;
  for (const auto& [name, token] : special_tokens_) {
    variables.Set(Value::Text(name), Value::Text(token));
  }
  // The defaults in transformers.
  variables.Set(Value::Text("documents"), Value());
  variables.Set(Value::Text("tools"), options.tools);
  for (const auto& [name, value] : options.variables) variables.Set(Value::Text(name), value);
  std::vector<Value> list;
  for (const ChatMessage& message : messages) {
    const bool is_continued = options.continue_final_message && &message == &messages.back();
    OUTRIDER_ASSIGN(list.emplace_back(), MessageOf(message, is_continued ? kContentEnd : ""));
  }
  OUTRIDER_ASSIGN(Value chat, jinja::NewList(std::move(list)));
  variables.Set(Value::Text("messages"), std::move(chat));
  variables.Set(Value::Text("add_generation_prompt"), Value::Bool(options.add_generation_prompt));
  OUTRIDER_ASSIGN(MarkedText text,
                  template_->Render(variables, {.output_bytes = options.max_bytes}));
  if (options.continue_final_message) return UpToContent(text, messages.back());
  return text;
}

Result<std::vector<TokenId>> ChatTemplate::Encode(const Tokenizer& tokenizer,
                                                  const std::vector<ChatMessage>& messages,
                                                  const ChatOptions& options) const {
  OUTRIDER_ASSIGN(const MarkedText text, Render(messages, options));
  return EncodeRendered(tokenizer, text);
}

Result<std::vector<TokenId>> ChatTemplate::EncodeRendered(const Tokenizer& tokenizer,
                                                          const MarkedText& text) const {
  std::vector<TokenId> prompt;
  if (adds_prompt_prefix_) prompt = tokenizer.prompt_prefix();
  // As one text, so that merges cross the borders of its parts, as they did in training.
  OUTRIDER_ASSIGN(const std::vector<TokenId> ids,
                  tokenizer.Encode(text.text(), /*parse_special=*/true, text.from_request()));
  prompt.insert(prompt.end(), ids.begin(), ids.end());
  return prompt;
}

std::vector<TokenId> ChatTemplate::EndTokens(const Tokenizer& tokenizer) const {
  std::vector<TokenId> ids;
  for (const std::string& marker : end_markers_) {
    const std::optional<TokenId> id = tokenizer.TokenToId(marker);
    if (id.has_value()) ids.push_back(*id);
  }
  return ids;
}

}  // namespace outrider
