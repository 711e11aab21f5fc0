#include "common/text/gguf_tokenizer.h"

#include <algorithm>
#include <string_view>

#include "common/base/printable.h"
#include "common/text/sentence_piece.h"
#include "common/text/split_patterns.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

using PieceType = SentencePiece::Type;

constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr char kTypes[] = "tokenizer.ggml.token_type";
constexpr char kScores[] = "tokenizer.ggml.scores";
constexpr char kMerges[] = "tokenizer.ggml.merges";
constexpr char kPre[] = "tokenizer.ggml.pre";
constexpr char kBos[] = "tokenizer.ggml.bos_token_id";
constexpr char kAddBos[] = "tokenizer.ggml.add_bos_token";
constexpr char kAddSpace[] = "tokenizer.ggml.add_space_prefix";

// A value of tokenizer.ggml.pre: the steps before byte-level BPE in the tokenizers for which
// llama.cpp uses this name.
struct PreTokenizerName {
  std::string_view name;
  std::string_view pattern;
  bool lone_digits = false;    // each digit is split off first
  bool ignore_merges = false;  // see TokenizerSpec
  bool adds_bos = false;       // if the file does not say
  bool nfc = false;
};
constexpr PreTokenizerName kPreTokenizers[] = {
    {"llama-bpe", kLlama3Pattern, false, true, true, false},
    {"llama3", kLlama3Pattern, false, true, true, false},
    {"llama-v3", kLlama3Pattern, false, true, true, false},
    {"smaug-bpe", kLlama3Pattern},  // SmolLM 3
    {"dbrx", kLlama3Pattern},       // OLMo 2, Phi-4
    {"qwen2", kQwen2Pattern, false, false, false, true},
    {"deepseek-r1-qwen", kQwen2Pattern, false, false, false, true},
    {"gpt-2", kGpt2Pattern},
    {"olmo", kGpt2Pattern},
    {"smollm", kGpt2Pattern, true},
    {"refact", kGpt2Pattern, true},  // Granite 3
    {"gpt-4o", kO200kPattern},       // Phi-4 mini
    {"tekken", kTekkenPattern, false, true, true, false}};

struct Tokens {
  std::vector<std::string_view> texts;
  std::vector<PieceType> types;
};

// "[PAD12]", added by the conversion if the vocabulary is smaller than the embedding.
bool IsPadding(std::string_view text, size_t id) {
  return text == "[PAD" + std::to_string(id) + "]";
}

Result<Tokens> ReadTokens(const GgufFile& file) {
  Tokens tokens;
  OUTRIDER_ASSIGN(tokens.texts, file.Texts(kTokens));
  if (tokens.texts.empty() || tokens.texts.size() > static_cast<size_t>(kMaxVocabulary)) {
    return file.Wrong(kTokens, "has " + std::to_string(tokens.texts.size()) +
                                   " tokens, must have 1 to " + std::to_string(kMaxVocabulary));
  }
  OUTRIDER_ASSIGN(const std::vector<int64_t> types, file.Ints(kTypes));
  if (types.size() != tokens.texts.size()) {
    return file.Wrong(kTypes, "has " + std::to_string(types.size()) + " elements, but there are " +
                                  std::to_string(tokens.texts.size()) + " tokens");
  }
  size_t bytes = 0, added_bytes = 0;
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] < 1 || types[id] > 6) {
      return file.Wrong(kTypes, "gives token " + std::to_string(id) + " the type " +
                                    std::to_string(types[id]) + ", must be 1 to 6");
    }
    tokens.types.push_back(static_cast<PieceType>(types[id]));
    bytes += tokens.texts[id].size();
    const PieceType type = tokens.types.back();
    if (type != PieceType::kNormal && type != PieceType::kUnused && type != PieceType::kByte) {
      added_bytes += tokens.texts[id].size();
    }
  }
  if (bytes > kMaxTokenizerFileBytes || added_bytes > kMaxAddedTokenBytes) {
    return file.Wrong(
        kTokens, "has " + std::to_string(bytes) + " bytes, " + std::to_string(added_bytes) +
                     " of them of added tokens; at most " + std::to_string(kMaxTokenizerFileBytes) +
                     " and " + std::to_string(kMaxAddedTokenBytes));
  }
  return tokens;
}

const PreTokenizerName* FindPreTokenizer(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers),
                   [&](const PreTokenizerName& known) { return known.name == name; });
  return found == std::end(kPreTokenizers) ? nullptr : found;
}

// "left right". Spaces within either are spelled as U+0120.
Status FillGgufMerges(const GgufFile& file, TokenizerSpec* spec) {
  OUTRIDER_ASSIGN(const std::vector<std::string_view> merges, file.Texts(kMerges));
  OUTRIDER_TRY(CheckAtMost(file.where() + ": " + kMerges, static_cast<int64_t>(merges.size()),
                           int64_t{4} * kMaxVocabulary));
  spec->merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const size_t space = merges[i].find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merges[i].size()) {
      return file.Wrong(kMerges, "has \"" + Printable(merges[i], 64) + "\" as number " +
                                     std::to_string(i) + ", must be two tokens");
    }
    spec->merges.emplace_back(merges[i].substr(0, space), merges[i].substr(space + 1));
  }
  return Status();
}

Status FillByteLevel(const GgufFile& file, const Tokens& tokens, TokenizerSpec* spec) {
  OUTRIDER_ASSIGN(const std::string_view name, file.Text(kPre));
  const PreTokenizerName* const pre = FindPreTokenizer(name);
  if (pre == nullptr) {
    std::string all;
    for (const PreTokenizerName& known : kPreTokenizers) {
      all += (all.empty() ? "" : ", ") + std::string(known.name);
    }
    return file.Unsupported(
        kPre, "is " + Printable(name, 64) + ", which is not supported; these are: " + all);
  }
  OUTRIDER_ASSIGN(const auto adds_space, file.MaybeBool(kAddSpace));
  if (adds_space.value_or(false)) {
    return file.Unsupported(kAddSpace, "is true, which byte-level tokenizers do not support here");
  }
  if (pre->nfc) spec->normalizer.emplace_back(UnicodeFormStep{UnicodeForm::kNfc});
  if (pre->lone_digits) {
    spec->pre_tokenizer.emplace_back(SplitStep{.pattern = {.text = "\\p{N}", .regex = true}});
  }
  spec->pre_tokenizer.emplace_back(
      SplitStep{.pattern = {.text = std::string(pre->pattern), .regex = true}});
  spec->byte_level = true;
  spec->ignore_merges = pre->ignore_merges;
  spec->vocabulary.resize(tokens.texts.size());
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    const std::string text(tokens.texts[id]);
    if (text.empty() || FindInvalidUtf8(text).has_value()) {
      return file.Wrong(kTokens,
                        "has a token that is empty or not UTF-8, number " + std::to_string(id));
    }
    const PieceType type = tokens.types[id];
    const bool is_text = type == PieceType::kNormal || type == PieceType::kByte ||
                         (type == PieceType::kUnused && !IsPadding(text, id));
    if (is_text) {
      spec->vocabulary[id] = text;
    } else if (type != PieceType::kUnused) {
      spec->added_tokens.push_back({.id = static_cast<TokenId>(id),
                                    .content = text,
                                    .special = type != PieceType::kUserDefined});
    }
  }
  return FillGgufMerges(file, spec);
}

Status FillSentencePiece(const GgufFile& file, const Tokens& tokens, TokenizerSpec* spec) {
  OUTRIDER_ASSIGN(const std::vector<float> scores, file.Floats(kScores));
  if (scores.size() != tokens.texts.size()) {
    return file.Wrong(kScores, "has " + std::to_string(scores.size()) +
                                   " elements, but there are " +
                                   std::to_string(tokens.texts.size()) + " tokens");
  }
  constexpr char kTrims[] = "tokenizer.ggml.remove_extra_whitespaces";
  OUTRIDER_ASSIGN(const auto trims, file.MaybeBool(kTrims));
  if (trims.value_or(false)) return file.Unsupported(kTrims, "is true, which is not supported");
  constexpr char kCharacterMap[] = "tokenizer.ggml.precompiled_charsmap";
  if (file.Has(kCharacterMap) && file.metadata().find(kCharacterMap)->second.count > 0) {
    return file.Unsupported(kCharacterMap, "is not supported");
  }
  OUTRIDER_ASSIGN(const auto adds_space, file.MaybeBool(kAddSpace));
  std::vector<SentencePiece> pieces;
  for (size_t id = 0; id < scores.size(); ++id) {
    pieces.push_back({std::string(tokens.texts[id]), scores[id], tokens.types[id]});
  }
  OUTRIDER_TRY(
      FillSentencePieceBpe(pieces, adds_space.value_or(true), spec).Annotate(file.where()));
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == PieceType::kUnused && IsPadding(pieces[id].text, id)) {
      spec->vocabulary[id].reset();
    }
  }
  return Status();
}

Status FillPrefix(const GgufFile& file, bool by_default, TokenizerSpec* spec) {
  constexpr char kAddEos[] = "tokenizer.ggml.add_eos_token";
  OUTRIDER_ASSIGN(const auto adds_eos, file.MaybeBool(kAddEos));
  if (adds_eos.value_or(false)) {
    return file.Unsupported(kAddEos, "is true: a prompt would end the text before it begins");
  }
  OUTRIDER_ASSIGN(const auto adds_bos, file.MaybeBool(kAddBos));
  if (!adds_bos.value_or(by_default)) return Status();
  OUTRIDER_ASSIGN(const int64_t bos,
                  file.Int(kBos, 0, static_cast<int64_t>(spec->vocabulary.size()) - 1));
  spec->prompt_prefix = {static_cast<TokenId>(bos)};
  return Status();
}

}  // namespace

Result<TokenizerSpec> ReadGgufTokenizer(const GgufFile& file) {
  OUTRIDER_ASSIGN(const std::string_view model, file.Text("tokenizer.ggml.model"));
  const bool is_byte_level = model == "gpt2";
  if (!is_byte_level && model != "llama") {
    return file.Unsupported(
        "tokenizer.ggml.model",
        "is " + Printable(model, 64) + ", which is not supported; these are: gpt2, llama");
  }
  OUTRIDER_ASSIGN(const Tokens tokens, ReadTokens(file));
  TokenizerSpec spec;
  bool adds_bos = true;
  if (is_byte_level) {
    OUTRIDER_TRY(FillByteLevel(file, tokens, &spec));
    adds_bos = FindPreTokenizer(file.Text(kPre).value())->adds_bos;
  } else {
    OUTRIDER_TRY(FillSentencePiece(file, tokens, &spec));
  }
  OUTRIDER_TRY(FillPrefix(file, adds_bos, &spec));
  return spec;
}

Result<ModelRoles> ReadGgufRoles(const GgufFile& file) {
  ModelRoles roles;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    OUTRIDER_ASSIGN(const auto id, file.MaybeToken(key, kMaxVocabulary));
    if (id.has_value()) roles.eos_ids.push_back(static_cast<TokenId>(*id));
  }
  return roles;
}

Result<GgufChat> ReadGgufChat(const GgufFile& file) {
  GgufChat chat;
  const auto read = [&](const char* key, std::optional<std::string>* out) -> Status {
    if (!file.Has(key)) return Status();
    OUTRIDER_ASSIGN(const std::string_view text, file.Text(key));
    *out = std::string(text);
    return Status();
  };
  OUTRIDER_TRY(read("tokenizer.chat_template", &chat.general));
  OUTRIDER_TRY(read("tokenizer.chat_template.tool_use", &chat.tool_use));
  OUTRIDER_ASSIGN(const std::vector<std::string_view> texts, file.Texts(kTokens));
  constexpr std::pair<const char*, const char*> kVariables[] = {
      {"bos_token", kBos},
      {"eos_token", "tokenizer.ggml.eos_token_id"},
      {"unk_token", "tokenizer.ggml.unknown_token_id"},
      {"sep_token", "tokenizer.ggml.seperator_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"},
      {"mask_token", "tokenizer.ggml.mask_token_id"}};
  for (const auto& [variable, key] : kVariables) {
    OUTRIDER_ASSIGN(const auto id, file.MaybeToken(key, static_cast<int64_t>(texts.size())));
    if (!id.has_value()) continue;
    const std::string text(texts[static_cast<size_t>(*id)]);
    if (FindInvalidUtf8(text).has_value()) return file.Wrong(key, "is a token that is not UTF-8");
    chat.special_tokens.emplace_back(variable, text);
  }
  return chat;
}

}  // namespace outrider
