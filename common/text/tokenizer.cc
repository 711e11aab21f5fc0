#include "common/text/tokenizer.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "common/base/input_file.h"
#include "common/text/added_tokens.h"
#include "common/text/byte_alphabet.h"
#include "common/text/detokenizer.h"
#include "common/text/gguf_tokenizer.h"
#include "common/text/length_bound.h"
#include "common/text/normalizer.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/sentence_piece_model.h"
#include "common/text/token_model.h"
#include "common/text/tokenizer_json.h"
#include "common/text/utf8.h"
#include "common/text/vocabulary.h"

namespace outrider {
namespace {

constexpr char kSentencePieceFile[] = "tokenizer.model";
// An added token is searched for at each position of a text, so a byte costs as many steps at most.
// Pieces of SentencePiece have the same limit.
constexpr size_t kMostAddedTokenBytes = 256;

std::string ReplaceAll(const std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t pos = text.find(from); pos != std::string::npos; pos = text.find(from, done)) {
    out.append(text, done, pos - done).append(to);
    done = pos + from.size();
  }
  return out.append(text, done);
}

// WordPiece's decoder: puts a space before each word, except where English has none before
// punctuation. (HF's tokenizers, decoders/wordpiece.rs; the text does not begin with that space.)
std::string JoinedBytes(const TokenizerSpec& spec, std::string token) {
  if (token.starts_with(spec.joined_prefix)) {
    token.erase(0, spec.joined_prefix.size());
  } else {
    token.insert(0, " ");
  }
  if (!spec.joins_punctuation) return token;
  constexpr std::pair<std::string_view, std::string_view> kJoined[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kJoined) token = ReplaceAll(token, from, to);
  return token;
}

std::string BytesOf(const TokenizerSpec& spec, std::string text, bool is_added) {
  if (spec.byte_level) {
    // Added tokens are written as they appear in the text.
    if (is_added) return text;
    return CharactersToBytes(text).value_or(text);
  }
  for (const auto& [from, to] : spec.replacements) text = ReplaceAll(text, from, to);
  if (!spec.joined_prefix.empty()) return JoinedBytes(spec, std::move(text));
  if (spec.byte_fallback) {
    if (const auto byte = ParseByteTokenName(text)) return std::string(1, static_cast<char>(*byte));
  }
  return text;
}

Status CheckLength(const AddedTokenSpec& token, const std::string& where) {
  if (token.content.size() <= kMostAddedTokenBytes) return Status();
  return InvalidArgument("added_tokens: token " + std::to_string(token.id) + " has " +
                         std::to_string(token.content.size()) + " bytes" + where + ", at most " +
                         std::to_string(kMostAddedTokenBytes) + " are read");
}

// Tokens with normalized:true are matched in normalized text, so they are normalized, too.
Result<std::vector<AddedTokenSpec>> NormalizedTokens(const std::vector<AddedTokenSpec>& tokens,
                                                     const Normalizer& normalizer) {
  std::vector<AddedTokenSpec> out;
  MatchBudget budget;
  size_t bytes = 0;
  for (AddedTokenSpec token : tokens) {
    if (!token.normalized) continue;
    OUTRIDER_ASSIGN(token.content, normalizer.Normalize(token.content, &budget));
    OUTRIDER_TRY(CheckLength(token, " when normalized"));
    bytes += token.content.size();
    if (bytes > kMaxAddedTokenBytes)
      return InvalidArgument("added_tokens: too long when normalized");
    if (!token.content.empty()) out.push_back(std::move(token));
  }
  return out;
}

// A part of a text, all of it users' text or none.
struct OriginPart {
  TextSpan bytes;
  bool is_plain;
};

// The parts of `span`, in order, as `plain` cuts it.
std::vector<OriginPart> PartsByOrigin(TextSpan span, std::span<const TextSpan> plain) {
  std::vector<OriginPart> parts;
  auto next = std::upper_bound(plain.begin(), plain.end(), span.begin,
                               [](size_t pos, const TextSpan& bytes) { return pos < bytes.end; });
  size_t pos = span.begin;
  for (; next != plain.end() && next->begin < span.end; ++next) {
    const TextSpan bytes{std::max(next->begin, pos), std::min(next->end, span.end)};
    if (pos < bytes.begin) parts.push_back({{pos, bytes.begin}, false});
    parts.push_back({bytes, true});
    pos = bytes.end;
  }
  if (pos < span.end) parts.push_back({{pos, span.end}, false});
  return parts;
}

std::vector<AddedTokenSpec> RawTokens(const std::vector<AddedTokenSpec>& tokens) {
  std::vector<AddedTokenSpec> out;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(out),
               [](const AddedTokenSpec& token) { return !token.normalized; });
  return out;
}

}  // namespace

struct Tokenizer::Parts {
  Vocabulary vocabulary;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokens raw_tokens;
  AddedTokens normalized_tokens;
  bool strips_leading_space;
  std::optional<size_t> most_bytes_per_token;
  std::vector<std::string> bytes;  // by id
  std::vector<TokenId> prompt_prefix;
  std::vector<TokenId> eos_tokens;
  std::vector<TokenId> prompt_suffix;
  // Refers to `vocabulary`, so it is made after that.
  std::optional<TokenModel> model;
  TokenizerFingerprint fingerprint;

  Status ApplyRoles(const ModelRoles& roles);
  Status EncodePlain(std::string text, bool at_text_start, TokenScratch& scratch,
                     std::vector<TokenId>& ids) const;
  Status EncodeNormalized(std::string_view text, bool at_text_start, bool parse_special,
                          TokenScratch& scratch, std::vector<TokenId>& ids) const;
  Status AppendNormalizedSpecials(std::string_view text, TokenScratch& scratch,
                                  std::vector<TokenId>& ids) const;
  Status EncodeSegment(std::string_view text, TextSpan segment, bool parse_special,
                       std::span<const TextSpan> plain, TokenScratch& scratch,
                       std::vector<TokenId>& ids) const;
};

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer::Parts>> Tokenizer::MakeParts(const Result<TokenizerSpec>& read) {
  OUTRIDER_TRY(read.status());
  const TokenizerSpec& spec = *read;
  for (const AddedTokenSpec& token : spec.added_tokens) OUTRIDER_TRY(CheckLength(token, ""));
  OUTRIDER_ASSIGN(Vocabulary vocabulary, Vocabulary::Create(spec));
  OUTRIDER_ASSIGN(Normalizer normalizer, Normalizer::Create(spec.normalizer));
  OUTRIDER_ASSIGN(PreTokenizer pre_tokenizer, PreTokenizer::Create(spec.pre_tokenizer));
  OUTRIDER_ASSIGN(std::vector<AddedTokenSpec> normalized,
                  NormalizedTokens(spec.added_tokens, normalizer));
  std::unique_ptr<Parts> parts(
      new Parts{.vocabulary = std::move(vocabulary),
                .normalizer = std::move(normalizer),
                .pre_tokenizer = std::move(pre_tokenizer),
                .raw_tokens = AddedTokens(RawTokens(spec.added_tokens)),
                .normalized_tokens = AddedTokens({}),
                .strips_leading_space = spec.strip_leading_space,
                .most_bytes_per_token = MostBytesPerToken(spec, normalized),
                .bytes = {},
                .prompt_prefix = spec.prompt_prefix,
                .eos_tokens = {},
                .prompt_suffix = spec.prompt_suffix,
                .model = std::nullopt,
                .fingerprint = {}});
  OUTRIDER_ASSIGN(TokenModel model, TokenModel::Create(spec, parts->vocabulary));
  parts->fingerprint = MakeFingerprint(parts->vocabulary, model);
  parts->model.emplace(std::move(model));
  for (TokenId id = 0; id < parts->vocabulary.size(); ++id) {
    parts->bytes.push_back(
        BytesOf(spec, std::string(parts->vocabulary.Text(id)), parts->vocabulary.IsAdded(id)));
  }
  // A normalized token has the form in which it is matched: after a Prepend, "</s>" includes a
  // space.
  for (AddedTokenSpec& token : normalized) {
    parts->bytes[token.id] = BytesOf(spec, token.content, true);
  }
  parts->normalized_tokens = AddedTokens(std::move(normalized));
  for (const auto* added : {&parts->prompt_prefix, &parts->prompt_suffix}) {
    for (const TokenId id : *added) {
      if (!parts->vocabulary.Has(id)) {
        return InvalidArgument("post_processor: no token has the id " + std::to_string(id));
      }
    }
  }
  return parts;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(std::string_view json) {
  Result<std::unique_ptr<Parts>> parts = MakeParts(ParseTokenizerJson(json));
  if (!parts.ok()) return parts.status().Annotate("tokenizer.json");
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts).value()));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::LoadGguf(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(const GgufFile file, GgufFile::Open(path));
  OUTRIDER_ASSIGN(const TokenizerSpec spec, ReadGgufTokenizer(file));
  OUTRIDER_ASSIGN(const ModelRoles roles, ReadGgufRoles(file));
  Result<std::unique_ptr<Parts>> parts = MakeParts(spec);
  if (!parts.ok()) return parts.status().Annotate(path.string());
  if (Status status = (*parts)->ApplyRoles(roles); !status.ok()) {
    return status.Annotate(path.string());
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts).value()));
}

// The spec of a folder without tokenizer.json. Tokenizers of such models begin texts with BOS,
// unless tokenizer_config.json says otherwise.
Result<TokenizerSpec> Tokenizer::ReadSentencePiece(const std::filesystem::path& model_dir,
                                                   ModelRoles* roles) {
  OUTRIDER_ASSIGN(const std::string bytes,
                  ReadFile(model_dir / kSentencePieceFile, kMaxTokenizerFileBytes));
  OUTRIDER_ASSIGN(TokenizerSpec spec, ParseSentencePieceModel(bytes));
  OUTRIDER_TRY(ReadAddedTokensBeside(model_dir, &spec));
  if (!roles->add_bos.has_value()) roles->add_bos = true;
  return spec;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::filesystem::path& model_dir) {
  if (const auto gguf = FindGgufModel(model_dir); gguf.has_value()) return LoadGguf(*gguf);
  std::filesystem::path file = model_dir / "tokenizer.json";
  const Result<std::string> json = ReadFile(file, kMaxTokenizerFileBytes);
  std::error_code ignored;
  const bool has_pieces = json.status().code() == Code::kNotFound &&
                          std::filesystem::exists(model_dir / kSentencePieceFile, ignored);
  if (!json.ok() && !has_pieces) return json.status();
  OUTRIDER_ASSIGN(ModelRoles roles, ReadModelRoles(model_dir));
  if (has_pieces) file = model_dir / kSentencePieceFile;
  Result<std::unique_ptr<Parts>> parts = has_pieces
                                             ? MakeParts(ReadSentencePiece(model_dir, &roles))
                                             : MakeParts(ParseTokenizerJson(*json));
  if (!parts.ok()) return parts.status().Annotate(file.string());
  if (Status status = (*parts)->ApplyRoles(roles); !status.ok()) {
    return status.Annotate(model_dir.string());
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts).value()));
}

// add_bos_token and add_eos_token override what the tokenizer's own file adds to prompts.
Status Tokenizer::Parts::ApplyRoles(const ModelRoles& roles) {
  const auto find = [&](const std::optional<std::string>& token) {
    return token.has_value() ? vocabulary.Find(*token) : std::nullopt;
  };
  const std::optional<TokenId> named_bos = find(roles.bos_token), named_eos = find(roles.eos_token);
  const auto first_eos = roles.eos_ids.empty() ? std::nullopt : std::optional(roles.eos_ids[0]);
  const auto apply = [&](std::optional<bool> adds, std::optional<TokenId> id, const char* what,
                         std::vector<TokenId>& ids) -> Status {
    if (adds == false) ids.clear();
    if (adds != true || !ids.empty()) return Status();
    if (!id.has_value() || !vocabulary.Has(*id)) {
      return InvalidArgument(std::string("tokenizer_config.json: ") + what);
    }
    ids = {*id};
    return Status();
  };
  OUTRIDER_TRY(apply(roles.add_bos, named_bos.has_value() ? named_bos : roles.bos_id,
                     "add_bos_token is true, but no BOS token is known", prompt_prefix));
  OUTRIDER_TRY(apply(roles.add_eos, named_eos.has_value() ? named_eos : first_eos,
                     "add_eos_token is true, but no EOS token is known", prompt_suffix));
  eos_tokens = roles.eos_ids;
  if (eos_tokens.empty() && named_eos.has_value()) eos_tokens = {*named_eos};
  std::sort(eos_tokens.begin(), eos_tokens.end());
  eos_tokens.erase(std::unique(eos_tokens.begin(), eos_tokens.end()), eos_tokens.end());
  for (const TokenId id : eos_tokens) {
    if (!vocabulary.Has(id)) {
      return InvalidArgument("eos_token_id: no token has the id " + std::to_string(id));
    }
  }
  return Status();
}

Status Tokenizer::Parts::EncodePlain(std::string text, bool at_text_start, TokenScratch& scratch,
                                     std::vector<TokenId>& ids) const {
  OUTRIDER_ASSIGN(const Pieces pieces,
                  pre_tokenizer.Split(std::move(text), at_text_start, &scratch.budget));
  for (const TextSpan& piece : pieces.spans) {
    OUTRIDER_TRY(model->Encode(
        std::string_view(pieces.text).substr(piece.begin, piece.end - piece.begin), scratch, ids));
  }
  return Status();
}

Status Tokenizer::Parts::EncodeNormalized(std::string_view text, bool at_text_start,
                                          bool parse_special, TokenScratch& scratch,
                                          std::vector<TokenId>& ids) const {
  OUTRIDER_ASSIGN(const std::string normalized, normalizer.Normalize(text, &scratch.budget));
  for (const TextPart& part : normalized_tokens.Split(normalized, parse_special)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      OUTRIDER_TRY(EncodePlain(normalized.substr(part.begin, part.end - part.begin),
                               at_text_start && part.begin == 0, scratch, ids));
    }
  }
  return Status();
}

// The special tokens that EncodeNormalized finds.
Status Tokenizer::Parts::AppendNormalizedSpecials(std::string_view text, TokenScratch& scratch,
                                                  std::vector<TokenId>& ids) const {
  OUTRIDER_ASSIGN(const std::string normalized, normalizer.Normalize(text, &scratch.budget));
  for (const TextPart& part : normalized_tokens.Split(normalized, /*parse_special=*/true)) {
    if (part.id >= 0 && vocabulary.IsSpecial(part.id)) ids.push_back(part.id);
  }
  return Status();
}

// `segment` of `text`, between two raw added tokens; normalization does not see beyond it.
// Normalizing moves bytes, so it is not known where a special token with normalized:true came from.
// If the segment has others than its parts outside `plain` have, each part is encoded by itself.
Status Tokenizer::Parts::EncodeSegment(std::string_view text, TextSpan segment, bool parse_special,
                                       std::span<const TextSpan> plain, TokenScratch& scratch,
                                       std::vector<TokenId>& ids) const {
  const auto encode = [&](TextSpan part, bool with_special) {
    return EncodeNormalized(text.substr(part.begin, part.end - part.begin), part.begin == 0,
                            with_special, scratch, ids);
  };
  if (!parse_special || plain.empty() || !normalized_tokens.has_special()) {
    return encode(segment, parse_special);
  }
  const auto append_specials = [&](TextSpan part, std::vector<TokenId>& specials) {
    return AppendNormalizedSpecials(text.substr(part.begin, part.end - part.begin), scratch,
                                    specials);
  };
  const std::vector<OriginPart> parts = PartsByOrigin(segment, plain);
  std::vector<TokenId> ours, all;
  for (const OriginPart& part : parts) {
    if (!part.is_plain) OUTRIDER_TRY(append_specials(part.bytes, ours));
  }
  OUTRIDER_TRY(append_specials(segment, all));
  if (all == ours) return encode(segment, true);
  for (const OriginPart& part : parts) OUTRIDER_TRY(encode(part.bytes, !part.is_plain));
  return Status();
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, bool parse_special,
                                               std::span<const TextSpan> plain) const {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument("a text of " + std::to_string(text.size()) + " bytes, at most " +
                           std::to_string(kMaxTextBytes));
  }
  if (const std::optional<size_t> bad = FindInvalidUtf8(text)) {
    return InvalidArgument("the text is not UTF-8 at byte " + std::to_string(*bad));
  }
  std::vector<TokenId> ids;
  TokenScratch scratch;
  for (const TextPart& part : parts_->raw_tokens.Split(text, parse_special, plain)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      OUTRIDER_TRY(
          parts_->EncodeSegment(text, {part.begin, part.end}, parse_special, plain, scratch, ids));
    }
  }
  return ids;
}

size_t Tokenizer::MostBytes(int tokens) const {
  const std::optional<size_t> each = parts_->most_bytes_per_token;
  const auto count = static_cast<size_t>(std::max(tokens, 0));
  if (!each.has_value() || (count > 0 && *each > kMaxTextBytes / count)) return kMaxTextBytes;
  return *each * count;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special, true);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Finish();
}

int Tokenizer::vocab_size() const { return parts_->vocabulary.size(); }

bool Tokenizer::IsSpecial(TokenId id) const { return parts_->vocabulary.IsSpecial(id); }

std::optional<TokenId> Tokenizer::TokenToId(std::string_view token) const {
  return parts_->vocabulary.Find(token);
}

std::string_view Tokenizer::IdToToken(TokenId id) const { return parts_->vocabulary.Text(id); }

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  return parts_->vocabulary.Has(id) ? std::string_view(parts_->bytes[id]) : std::string_view();
}

bool Tokenizer::strips_leading_space() const { return parts_->strips_leading_space; }

const std::vector<TokenId>& Tokenizer::prompt_prefix() const { return parts_->prompt_prefix; }

const std::vector<TokenId>& Tokenizer::prompt_suffix() const { return parts_->prompt_suffix; }

const std::vector<TokenId>& Tokenizer::eos_tokens() const { return parts_->eos_tokens; }

const TokenizerFingerprint& Tokenizer::fingerprint() const { return parts_->fingerprint; }

}  // namespace outrider
