// Text to token ids and back, as the tokenizer.json of a model says: byte-level BPE (GPT-2, Llama
// 3, Qwen), SentencePiece-style BPE with byte fallback (Llama 2, Mistral), Unigram and WordPiece.
// Ids are the same as the Hugging Face library's.
//
// Thread: any (immutable).
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

struct ModelRoles;

class Tokenizer {
 public:
  // A context of 131,072 tokens is about an eighth of this; 4 MiB is also gRPC's message limit.
  static constexpr size_t kMaxTextBytes = 4 << 20;

  // Reads tokenizer.json, or without it tokenizer.model (SentencePiece's), and from
  // tokenizer_config.json, generation_config.json and config.json beside it, where they exist,
  // which tokens begin and end a text. Or all of it from the GGUF file that `model_dir` is or holds
  // (FindGgufModel). kNotFound, kInvalidArgument (malformed) or kUnimplemented, with the file and
  // the field.
  static Result<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& model_dir);
  // From the content of a tokenizer.json alone.
  static Result<std::unique_ptr<Tokenizer>> FromJson(std::string_view json);

  ~Tokenizer();

  // Without the prompt prefix. `parse_special`: tokens with special:true are found in the text too
  // (for templates we wrote); without it they are plain text (for what users wrote). Added tokens
  // with special:false are found either way.
  // kInvalidArgument: not UTF-8 (with the offset), or more than kMaxTextBytes.
  Result<std::vector<TokenId>> Encode(std::string_view text, bool parse_special) const;

  // Every text that becomes at most `tokens` ids has at most so many bytes, and a longer one can be
  // refused without looking at it. A bound, not the least one; kMaxTextBytes where there is none.
  size_t MostBytes(int tokens) const;

  // Always well-formed: bytes that form no character become U+FFFD. Ids without token add nothing.
  std::string Decode(std::span<const TokenId> ids, bool skip_special) const;

  // The highest id + 1 over vocabulary and added tokens. A model may have more logits than that.
  int vocab_size() const;
  bool IsSpecial(TokenId id) const;
  std::optional<TokenId> TokenToId(std::string_view token) const;
  // As written in the file; "" for an id without token.
  std::string_view IdToToken(TokenId id) const;
  // What it adds to a text, maybe a part of a character only; "" for an id without token.
  std::string_view TokenBytes(TokenId id) const;
  // Whether the text of a decoding starts with a space that encoding has put there.
  bool strips_leading_space() const;

  // The ids to put before a prompt (a BOS token); empty where there are none.
  const std::vector<TokenId>& prompt_prefix() const;
  // The ids to put after a prompt; empty for most models that write texts.
  const std::vector<TokenId>& prompt_suffix() const;
  // The ids that end a generation, ascending. Empty when made from JSON alone.
  const std::vector<TokenId>& eos_tokens() const;

  const TokenizerFingerprint& fingerprint() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  // Of a spec, or of the reason why there is none.
  static Result<std::unique_ptr<Parts>> MakeParts(const Result<TokenizerSpec>& read);
  static Result<std::unique_ptr<Tokenizer>> LoadGguf(const std::filesystem::path& path);
  static Result<TokenizerSpec> ReadSentencePiece(const std::filesystem::path& model_dir,
                                                 ModelRoles* roles);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace outrider
