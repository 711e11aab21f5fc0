// Converts text to token ids and back, according to a model's tokenizer.json: byte-level BPE
// (GPT-2, Llama 3, Qwen), SentencePiece-style BPE with byte fallback (Llama 2, Mistral), Unigram
// and WordPiece. Ids are the same as the Hugging Face library's.
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
#include "common/text/text_span.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

struct ModelRoles;

class Tokenizer {
 public:
  // Eight times a context of 131,072 tokens, roughly; 4 MiB is also gRPC's message limit.
  static constexpr size_t kMaxTextBytes = 4 << 20;

  // Reads tokenizer.json or else tokenizer.model (SentencePiece's); and, from
  // tokenizer_config.json, generation_config.json and config.json beside it, if they exist, which
  // tokens begin and end a text. Or reads everything from the GGUF file that `model_dir` is or
  // contains (FindGgufModel). kNotFound, kInvalidArgument (malformed) or kUnimplemented, with the
  // file and the field.
  static Result<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& model_dir);
  // From the content of a tokenizer.json alone.
  static Result<std::unique_ptr<Tokenizer>> FromJson(std::string_view json);

  ~Tokenizer();

  // Does not add the prompt prefix. `parse_special`: also recognises tokens with special:true in
  // the text (for our own templates); otherwise they are plain text (for users' text). `plain`: the
  // parts that are users' text even so, of which no byte becomes a part of a special token. Added
  // tokens with special:false are always recognised.
  // kInvalidArgument: not UTF-8 (with the offset), or more than kMaxTextBytes.
  // REQUIRES: `plain` consists of whole characters, is ascending and does not overlap.
  Result<std::vector<TokenId>> Encode(std::string_view text, bool parse_special,
                                      std::span<const TextSpan> plain = {}) const;

  // No text with more bytes than this has at most `tokens` ids, so it can be refused without
  // reading it. An upper bound, not the least one; kMaxTextBytes if there is none.
  size_t MostBytes(int tokens) const;

  // Always well-formed: invalid bytes become U+FFFD. Ids without a token add nothing.
  std::string Decode(std::span<const TokenId> ids, bool skip_special) const;

  // The highest id + 1 over vocabulary and added tokens. A model may have more logits.
  int vocab_size() const;
  bool IsSpecial(TokenId id) const;
  std::optional<TokenId> TokenToId(std::string_view token) const;
  // As written in the file; "" for an id without a token.
  std::string_view IdToToken(TokenId id) const;
  // The bytes that it adds to a text, perhaps only part of a character; "" for an id without a
  // token.
  std::string_view TokenBytes(TokenId id) const;
  // Whether decoding removes a space at the start of the text that encoding has added.
  bool strips_leading_space() const;

  // The ids to put before a prompt (a BOS token); may be empty.
  const std::vector<TokenId>& prompt_prefix() const;
  // The ids to put after a prompt; empty for most generative models.
  const std::vector<TokenId>& prompt_suffix() const;
  // The ids that end a generation, ascending. Empty if made from JSON alone.
  const std::vector<TokenId>& eos_tokens() const;

  const TokenizerFingerprint& fingerprint() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  // From a spec, or the reason why there is none.
  static Result<std::unique_ptr<Parts>> MakeParts(const Result<TokenizerSpec>& read);
  static Result<std::unique_ptr<Tokenizer>> LoadGguf(const std::filesystem::path& path);
  static Result<TokenizerSpec> ReadSentencePiece(const std::filesystem::path& model_dir,
                                                 ModelRoles* roles);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace outrider
