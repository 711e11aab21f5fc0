// Turns the messages of a chat into the prompt that a model was trained on, by the checkpoint's own
// template, a Jinja program (common/text/jinja).
//
// Thread: any (immutable).
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja/template.h"
#include "common/text/tokenizer.h"

namespace outrider {

// A call of a tool in an assistant's message.
struct ChatToolCall {
  std::string id = "";
  std::string name;
  std::string arguments;          // the text of a JSON object
  jinja::Value arguments_object;  // the same, parsed
};

struct ChatMessage {
  // "system", "developer", "user", "assistant" or "tool": one of our words, never text of the
  // request, for a template may make a special token of it.
  std::string role;
  // The texts of the content: one for a string, any number for an array of parts.
  std::vector<std::string> parts;
  bool is_array = false;  // the content came as an array
  std::string name = "";  // "": none
  // Of an assistant's message. With calls, content that is null is none in the template.
  std::vector<ChatToolCall> tool_calls = {};
  bool has_content = true;     // it is not null
  std::string reasoning = "";  // "": none
  // Of a tool's message: the call that it answers; "": not said.
  std::string tool_call_id = "";
};

// What a request may say beside its messages.
struct ChatOptions {
  bool add_generation_prompt = true;    // the prompt ends where the assistant's answer begins
  bool continue_final_message = false;  // the prompt ends within the last message, which goes on
  jinja::Value tools;  // a list of what the model may call; none where there is nothing
  // More variables of the template; not those that ChatTemplate sets itself, see IsReserved.
  std::vector<std::pair<std::string, jinja::Value>> variables = {};
  size_t max_bytes = Tokenizer::kMaxTextBytes;  // of the rendered text
};

class ChatTemplate {
 public:
  // Variables of templates that say which tokens are special, and the tokens: "bos_token", "<s>".
  using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

  // The name of the one template that is built in, for checkpoints that bring none.
  static constexpr std::string_view kChatMl = "chatml";

  // No template: refuses every chat.
  ChatTemplate();
  // A template that cannot be parsed gives an object that refuses every chat and says why.
  static ChatTemplate FromText(std::string_view jinja, SpecialTokens special_tokens = {});
  static ChatTemplate ChatMl();
  // `choice`: kChatMl, a template's file, or "" for the checkpoint's own: tokenizer.chat_template
  // of a GGUF file, chat_template.jinja, else chat_template in tokenizer_config.json: a string, or
  // a list, of which the template named default is for chats without tools, and for those with
  // tools unless one is named tool_use. kInvalidArgument: a malformed file of the checkpoint, or a
  // chosen file that is no template; also the errors of common/base/input_file.h.
  static Result<ChatTemplate> Load(const std::filesystem::path& model_dir,
                                   const std::string& choice);

  // OK, or why every chat is refused (kFailedPrecondition, with what to do).
  const Status& status() const { return status_; }
  // The template that chats with tools are rendered by, as it was given; "" where there is none.
  const std::string& text_with_tools() const {
    return tool_use_ != nullptr ? tool_use_->text_ : text_;
  }
  // Whether `name` is a variable that only ChatTemplate sets.
  static bool IsReserved(std::string_view name);

  // The prompt. Special tokens are those of the template alone: what messages and variables hold is
  // plain text, whatever it looks like.
  // kFailedPrecondition: status(). kInvalidArgument: no message, what the template refuses or
  // cannot be rendered with ("line <n>: ..."), a text of more than max_bytes, what
  // Tokenizer::Encode refuses.
  Result<std::vector<TokenId>> Encode(const Tokenizer& tokenizer,
                                      const std::vector<ChatMessage>& messages,
                                      const ChatOptions& options) const;
  // The same of a text that Render has made.
  Result<std::vector<TokenId>> EncodeRendered(const Tokenizer& tokenizer,
                                              const jinja::MarkedText& text) const;
  // The text of the prompt, as for Encode.
  Result<jinja::MarkedText> Render(const std::vector<ChatMessage>& messages,
                                   const ChatOptions& options) const;
  // Tokens that end a message in this format, beside the model's own ends of sequence.
  std::vector<TokenId> EndTokens(const Tokenizer& tokenizer) const;

 private:
  Result<jinja::Value> MessageOf(const ChatMessage& message) const;
  Result<jinja::Value> ContentOf(const ChatMessage& message) const;
  Result<jinja::Value> ToolCallsOf(const std::vector<ChatToolCall>& calls) const;
  bool TakesArgumentsAsText();
  void SetToolUse(ChatTemplate tool_use);

  Status status_;
  std::string text_;
  std::optional<jinja::Template> template_;
  std::shared_ptr<const ChatTemplate> tool_use_;  // for chats with tools; null: as for others
  SpecialTokens special_tokens_;
  bool adds_prompt_prefix_ = false;  // the tokenizer's BOS, which the template does not write
  bool takes_parts_ = false;         // the template walks over the parts of a content
  bool knows_developer_ = false;     // the template names the role "developer"
  // Arguments of calls are handed over as the text that came, not as objects.
  bool takes_argument_text_ = false;
  std::vector<std::string> end_markers_;
};

}  // namespace outrider
