// Turns the messages of a chat into the prompt that a model was trained on. Checkpoints bring their
// format as a Jinja program (tokenizer_config.json, chat_template.jinja); the families in wide use
// are recognised by their markers and written by hand here, other programs are refused.
//
// Thread: any (immutable).
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/tokenizer.h"

namespace outrider {

enum class ChatFamily {
  kPlain,    // "user: ...\n" lines: checkpoints without a template
  kChatMl,   // Qwen and many others: <|im_start|>user\n...<|im_end|>\n
  kLlama2,   // [INST] <<SYS>>\n...\n<</SYS>>\n\n... [/INST]
  kLlama3,   // <|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>
  kMistral,  // [INST] ... [/INST]
  kZephyr,   // <|user|>\n...</s>\n
};

inline constexpr ChatFamily kAllChatFamilies[] = {ChatFamily::kPlain,   ChatFamily::kChatMl,
                                                  ChatFamily::kLlama2,  ChatFamily::kLlama3,
                                                  ChatFamily::kMistral, ChatFamily::kZephyr};

// "plain", "chatml", "llama2", "llama3", "mistral", "zephyr".
std::string_view ChatFamilyName(ChatFamily family);
// kInvalidArgument lists the names.
Result<ChatFamily> ParseChatFamily(std::string_view name);

struct ChatMessage {
  enum class Role { kSystem, kUser, kAssistant };
  Role role = Role::kUser;
  std::string content;
};

class ChatTemplate {
 public:
  // From the text of a template, or one of our families where it is to be used whatever the
  // checkpoint says. Empty text: plain. An unknown template gives an object that refuses.
  static ChatTemplate FromText(std::string_view jinja);
  static ChatTemplate FromFamily(ChatFamily family);
  // From the files of a model's directory; "" where it has none. kInvalidArgument: a malformed
  // file.
  static Result<std::string> ReadText(const std::filesystem::path& model_dir);

  // nullopt: a template that no family fits.
  std::optional<ChatFamily> family() const { return family_; }

  // The prompt, up to where the assistant's next message begins. Special tokens are those of the
  // template alone: what messages hold is plain text, whatever it looks like.
  // kFailedPrecondition: an unknown template, with the words to do about it. kInvalidArgument: no
  // message, more than `max_bytes` of rendered text, or what Tokenizer::Encode refuses.
  Result<std::vector<TokenId>> Encode(const Tokenizer& tokenizer,
                                      const std::vector<ChatMessage>& messages,
                                      size_t max_bytes = Tokenizer::kMaxTextBytes) const;
  // Tokens that end a message in this format, beside the model's own ends of sequence.
  std::vector<TokenId> EndTokens(const Tokenizer& tokenizer) const;

  // What Encode turns into tokens: pieces of the template in turn with messages' words.
  struct Piece {
    std::string text;
    bool from_template = true;
  };
  std::vector<Piece> Render(std::vector<ChatMessage> messages) const;

 private:
  std::optional<ChatFamily> family_ = ChatFamily::kPlain;
  // What templates of one family differ in.
  std::optional<bool> begins_with_bos_;  // nullopt: as the tokenizer does with any text
  std::string default_system_;           // ChatML: for chats without a system message
  bool dates_ = false;                   // Llama 3.1 and later: a block of dates for the system
  bool space_before_end_ = true;         // Mistral: "[INST] x [/INST]" or "[INST] x[/INST]"
};

}  // namespace outrider
