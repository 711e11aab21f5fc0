// Renders the messages of a chat to the prompt format that a model was trained on, with the
// checkpoint's own template, a Jinja program (common/text/jinja).
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

// A tool call in an assistant's message.
struct ChatToolCall {
  std::string id = "";
  std::string name;
  std::string arguments;          // a JSON object
  jinja::Value arguments_object;  // the same, parsed
};

struct ChatMessage {
  // "system", "developer", "user", "assistant" or "tool": our own string, never text of the
  // request, because a template may make a special token of it.
  std::string role;
  // The texts of the content: one for a string, any number for an array of parts.
  std::vector<std::string> parts;
  bool is_array = false;  // the content came as an array
  std::string name = "";  // "": none
  // For assistant messages. With calls, null content is `none` in templates that take that.
  std::vector<ChatToolCall> tool_calls = {};
  bool has_content = true;     // false: null
  std::string reasoning = "";  // "": none
  // For tool messages: the id of the answered call; "": not given.
  std::string tool_call_id = "";
};

// Options of a chat request besides its messages.
struct ChatOptions {
  bool add_generation_prompt = true;  // end the prompt where the assistant's answer begins
  // end the prompt within the last message, which is continued
  bool continue_final_message = false;
  jinja::Value tools;  // a list of what the model may call; `none` if there are none
  // Additional template variables, except those that ChatTemplate sets itself (see IsReserved).
  std::vector<std::pair<std::string, jinja::Value>> variables = {};
  size_t max_bytes = Tokenizer::kMaxTextBytes;  // of the rendered text
};

class ChatTemplate {
 public:
  // Template variables for special tokens: "bos_token", "<s>".
  using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

  // The name of the one built-in template, for checkpoints without one.
  static constexpr std::string_view kChatMl = "chatml";

  // Without a template: refuses every chat.
  ChatTemplate();
  // If the template cannot be parsed, the object refuses every chat with the reason.
  static ChatTemplate FromText(std::string_view jinja, SpecialTokens special_tokens = {});
  static ChatTemplate ChatMl();
  // `choice`: kChatMl, a template file, or "" for the checkpoint's own: tokenizer.chat_template of
  // a GGUF file; chat_template.jinja, with additional_chat_templates/tool_use.jinja; or else
  // chat_template in tokenizer_config.json. The last is a string or a list, in which "default" is
  // the template for chats without tools, and also for those with tools unless there is a
  // "tool_use". kInvalidArgument: a malformed file of the checkpoint, or a chosen file that is not
  // a template; also the errors of common/base/input_file.h.
  static Result<ChatTemplate> Load(const std::filesystem::path& model_dir,
                                   const std::string& choice);

  // OK, or why every chat is refused (kFailedPrecondition, with the remedy).
  const Status& status() const { return status_; }
  // The source of the template for chats with tools; "" if there is none.
  const std::string& text_with_tools() const {
    return tool_use_ != nullptr ? tool_use_->text_ : text_;
  }
  // Whether only ChatTemplate sets the variable `name`.
  static bool IsReserved(std::string_view name);

  // The prompt. Special tokens come from the template alone: messages and variables are plain text,
  // whatever they look like.
  // kFailedPrecondition: status(). kInvalidArgument: there is no message, the template raises an
  // error or cannot be rendered ("line <n>: ..."), the text has more than max_bytes, or
  // Tokenizer::Encode refuses it.
  Result<std::vector<TokenId>> Encode(const Tokenizer& tokenizer,
                                      const std::vector<ChatMessage>& messages,
                                      const ChatOptions& options) const;
  // The same for a text made by Render.
  Result<std::vector<TokenId>> EncodeRendered(const Tokenizer& tokenizer,
                                              const jinja::MarkedText& text) const;
  // The text of the prompt; see Encode.
  Result<jinja::MarkedText> Render(const std::vector<ChatMessage>& messages,
                                   const ChatOptions& options) const;
  // Tokens that end a message in this format, in addition to the model's EOS tokens.
  std::vector<TokenId> EndTokens(const Tokenizer& tokenizer) const;

 private:
  // `end`: appended to the content.
  Result<jinja::Value> MessageOf(const ChatMessage& message, std::string_view end) const;
  Result<jinja::Value> ContentOf(const ChatMessage& message, std::string_view end) const;
  Result<jinja::Value> ToolCallsOf(const std::vector<ChatToolCall>& calls) const;
  void FindFormOfCalls();
  void SetToolUse(ChatTemplate tool_use);

  Status status_;
  std::string text_;
  std::optional<jinja::Template> template_;
  std::shared_ptr<const ChatTemplate> tool_use_;  // for chats with tools; null: the same template
  SpecialTokens special_tokens_;
  bool adds_prompt_prefix_ = false;  // add the tokenizer's BOS, which the template does not write
  bool takes_parts_ = false;         // the template iterates over the parts of a content
  bool knows_developer_ = false;     // the template names the role "developer"
  bool takes_thinking_ = false;      // the template reads `thinking`, gpt-oss's name for reasoning
  // Passes arguments of calls as the original text, not as objects.
  bool takes_argument_text_ = false;
  // Passes null content beside calls as an empty text, not as none.
  bool takes_empty_content_ = false;
  std::vector<std::string> end_markers_;
};

}  // namespace outrider
