#include "common/text/chat_template.h"

#include <algorithm>
#include <utility>

#include "common/base/input_file.h"
#include "common/json/json.h"

namespace outrider {
namespace {

using Role = ChatMessage::Role;
using Pieces = std::vector<ChatTemplate::Piece>;

// What Llama 3.1's template says where its caller names no date: a fixed one, so that the same chat
// gives the same prompt every day.
constexpr char kDates[] = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kSystem: return "system";
    case Role::kUser: return "user";
    case Role::kAssistant: return "assistant";
  }
  return "";
}

constexpr size_t kMaxFileBytes = size_t{64} << 20;  // tokenizer_config.json lists added tokens

// The system message that Qwen's templates put where the chat has none, a string literal in them.
std::string DefaultSystem(std::string_view jinja) {
  constexpr std::string_view kBegin = "<|im_start|>system\\n", kEnd = "<|im_end|>";
  for (size_t at = jinja.find(kBegin); at != std::string_view::npos;
       at = jinja.find(kBegin, at + 1)) {
    const std::string_view rest = jinja.substr(at + kBegin.size());
    const std::string_view words = rest.substr(0, std::min(rest.find(kEnd), rest.find('\\')));
    if (!words.empty() && words.find_first_of("'\"{}\n") == std::string_view::npos &&
        rest.substr(words.size()).starts_with(kEnd)) {
      return std::string(words);
    }
  }
  return "";
}

class Writer {
 public:
  void Template(std::string_view text) { pieces_.push_back({std::string(text), true}); }
  void Message(std::string text) { pieces_.push_back({std::move(text), false}); }
  Pieces Take() { return std::move(pieces_); }

 private:
  Pieces pieces_;
};

Pieces Plain(std::vector<ChatMessage> messages) {
  Writer out;
  for (ChatMessage& m : messages) {
    out.Template(std::string(RoleName(m.role)) + ": ");
    out.Message(std::move(m.content));
    out.Template("\n");
  }
  out.Template("assistant:");
  return out.Take();
}

Pieces ChatMl(std::vector<ChatMessage> messages, const std::string& default_system) {
  Writer out;
  if (!default_system.empty() && messages.front().role != Role::kSystem) {
    out.Template("<|im_start|>system\n" + default_system + "<|im_end|>\n");
  }
  for (ChatMessage& m : messages) {
    out.Template("<|im_start|>" + std::string(RoleName(m.role)) + "\n");
    out.Message(std::move(m.content));
    out.Template("<|im_end|>\n");
  }
  out.Template("<|im_start|>assistant\n");
  return out.Take();
}

std::string Trimmed(const std::string& text) {
  constexpr char kSpace[] = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

Pieces Llama3(std::vector<ChatMessage> messages, bool dates) {
  Writer out;
  const auto header = [](std::string_view role) {
    return "<|start_header_id|>" + std::string(role) + "<|end_header_id|>\n\n";
  };
  if (dates && messages.front().role != Role::kSystem) {
    messages.insert(messages.begin(), {Role::kSystem, ""});
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    out.Template(header(RoleName(messages[i].role)) + (dates && i == 0 ? kDates : ""));
    out.Message(Trimmed(messages[i].content));
    out.Template("<|eot_id|>");
  }
  out.Template(header("assistant"));
  return out.Take();
}

Pieces Zephyr(std::vector<ChatMessage> messages) {
  Writer out;
  for (ChatMessage& m : messages) {
    out.Template("<|" + std::string(RoleName(m.role)) + "|>\n");
    out.Message(std::move(m.content));
    out.Template("</s>\n");
  }
  out.Template("<|assistant|>\n");
  return out.Take();
}

// Llama 2 and Mistral: system words stand in the first user message. `system_begin`, `system_end`:
// around them; `turn_begin`: before every turn but the first, whose BOS the prompt brings.
struct InstFormat {
  std::string_view system_begin;
  std::string_view system_end;
  std::string_view end;         // of an instruction
  std::string_view answer_end;  // of an assistant's message
  std::string_view turn_begin;
};

Pieces Inst(const std::vector<ChatMessage>& messages, const InstFormat& format) {
  Writer out;
  std::optional<std::string> system;
  bool first_turn = true;
  for (const ChatMessage& m : messages) {
    if (m.role == Role::kSystem) {
      system = system.has_value() ? *system + "\n\n" + m.content : m.content;
      continue;
    }
    if (m.role == Role::kAssistant) {
      out.Template(" ");
      out.Message(Trimmed(m.content));
      out.Template(format.answer_end);
      continue;
    }
    out.Template(std::string(first_turn ? "" : format.turn_begin) + "[INST] ");
    first_turn = false;
    if (system.has_value()) {
      out.Template(format.system_begin);
      out.Message(*std::exchange(system, std::nullopt));
      out.Template(format.system_end);
    }
    out.Message(Trimmed(m.content));
    out.Template(format.end);
  }
  return out.Take();
}

constexpr InstFormat kLlama2Format{"<<SYS>>\n", "\n<</SYS>>\n\n", " [/INST]", " </s>", "<s>"};

}  // namespace

std::string_view ChatFamilyName(ChatFamily family) {
  switch (family) {
    case ChatFamily::kPlain: return "plain";
    case ChatFamily::kChatMl: return "chatml";
    case ChatFamily::kLlama2: return "llama2";
    case ChatFamily::kLlama3: return "llama3";
    case ChatFamily::kMistral: return "mistral";
    case ChatFamily::kZephyr: return "zephyr";
  }
  return "";
}

Result<ChatFamily> ParseChatFamily(std::string_view name) {
  std::string names;
  for (const ChatFamily family : kAllChatFamilies) {
    if (ChatFamilyName(family) == name) return family;
    names += (names.empty() ? "" : ", ") + std::string(ChatFamilyName(family));
  }
  return InvalidArgument("chat template \"" + std::string(name) + "\" is none of " + names);
}

ChatTemplate ChatTemplate::FromFamily(ChatFamily family) {
  ChatTemplate out;
  out.family_ = family;
  return out;
}

ChatTemplate ChatTemplate::FromText(std::string_view jinja) {
  ChatTemplate out;
  if (jinja.empty()) return out;
  out.begins_with_bos_ = Has(jinja, "bos_token") || Has(jinja, "<|begin_of_text|>");
  if (Has(jinja, "<|im_start|>")) {
    out.family_ = ChatFamily::kChatMl;
    out.default_system_ = DefaultSystem(jinja);
  } else if (Has(jinja, "<|start_header_id|>")) {
    out.family_ = ChatFamily::kLlama3;
    out.dates_ = Has(jinja, "Cutting Knowledge Date");
  } else if (Has(jinja, "[INST]")) {
    out.family_ = Has(jinja, "<<SYS>>") ? ChatFamily::kLlama2 : ChatFamily::kMistral;
    out.space_before_end_ = Has(jinja, " [/INST]");
  } else if (Has(jinja, "<|user|>") && Has(jinja, "<|assistant|>") && !Has(jinja, "<|end|>")) {
    out.family_ = ChatFamily::kZephyr;
  } else {
    out.family_ = std::nullopt;
  }
  return out;
}

Result<std::string> ChatTemplate::ReadText(const std::filesystem::path& model_dir) {
  Result<std::string> own = ReadFile(model_dir / "chat_template.jinja", kMaxFileBytes);
  if (own.status().code() != Code::kNotFound) return own;
  const Result<JsonValue> config = ReadJsonObject(
      model_dir / "tokenizer_config.json", {.bytes = kMaxFileBytes, .repeated_members = true});
  if (config.status().code() == Code::kNotFound) return std::string();
  if (!config.ok()) return config.status();
  const JsonValue found = (*config)["chat_template"];
  if (found.is_null() || found.is_string()) return found.text();
  for (size_t i = 0; found.is_array() && i < found.size(); ++i) {  // a list of named ones
    const JsonValue text = found[i]["template"];
    if (found[i]["name"].Is("default") && text.is_string()) return text.text();
  }
  return found.Wrong("a template, or a list of which one is named default");
}

Pieces ChatTemplate::Render(std::vector<ChatMessage> messages) const {
  switch (family_.value_or(ChatFamily::kPlain)) {
    case ChatFamily::kPlain: return Plain(std::move(messages));
    case ChatFamily::kChatMl: return ChatMl(std::move(messages), default_system_);
    case ChatFamily::kLlama2: return Inst(messages, kLlama2Format);
    case ChatFamily::kLlama3: return Llama3(std::move(messages), dates_);
    case ChatFamily::kMistral:
      return Inst(messages, {"", "\n\n", space_before_end_ ? " [/INST]" : "[/INST]", "</s>", ""});
    case ChatFamily::kZephyr: return Zephyr(std::move(messages));
  }
  return {};
}

Result<std::vector<TokenId>> ChatTemplate::Encode(const Tokenizer& tokenizer,
                                                  const std::vector<ChatMessage>& messages,
                                                  size_t max_bytes) const {
  if (!family_.has_value()) {
    return FailedPrecondition(
        "the checkpoint's chat template is of no family that this server knows; start it with "
        "--chat-template FAMILY to choose one (see --help), or send a prompt to /v1/completions");
  }
  if (messages.empty()) return InvalidArgument("a chat needs a message");
  const Pieces pieces = Render(messages);
  size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.text.size();
  if (bytes > max_bytes) {
    return InvalidArgument(std::to_string(bytes) +
                           " bytes of text, and the context holds at most " +
                           std::to_string(max_bytes) + "; shorten the messages");
  }
  std::vector<TokenId> prompt;
  if (begins_with_bos_.value_or(true)) prompt = tokenizer.prompt_prefix();

  // As one text, so that words merge over the pieces' borders as they did in training.
  const auto specials_of = [&](const std::vector<TokenId>& ids) {
    std::vector<TokenId> specials;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(specials),
                 [&](TokenId id) { return tokenizer.IsSpecial(id); });
    return specials;
  };
  std::string whole;
  std::vector<TokenId> ours;
  for (const Piece& piece : pieces) {
    whole += piece.text;
    if (!piece.from_template) continue;
    OUTRIDER_ASSIGN(const auto ids, tokenizer.Encode(piece.text, /*parse_special=*/true));
    const std::vector<TokenId> specials = specials_of(ids);
    ours.insert(ours.end(), specials.begin(), specials.end());
  }
  OUTRIDER_ASSIGN(std::vector<TokenId> ids, tokenizer.Encode(whole, /*parse_special=*/true));
  if (specials_of(ids) != ours) {  // somebody wrote one into a message
    ids.clear();
    for (const Piece& piece : pieces) {
      OUTRIDER_ASSIGN(const auto part, tokenizer.Encode(piece.text, piece.from_template));
      ids.insert(ids.end(), part.begin(), part.end());
    }
  }
  prompt.insert(prompt.end(), ids.begin(), ids.end());
  return prompt;
}

std::vector<TokenId> ChatTemplate::EndTokens(const Tokenizer& tokenizer) const {
  std::string_view end;
  if (family_ == ChatFamily::kChatMl) end = "<|im_end|>";
  if (family_ == ChatFamily::kLlama3) end = "<|eot_id|>";
  const std::optional<TokenId> id = end.empty() ? std::nullopt : tokenizer.TokenToId(end);
  return id.has_value() ? std::vector<TokenId>{*id} : std::vector<TokenId>{};
}

}  // namespace outrider
