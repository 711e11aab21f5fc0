#include "common/text/sentence_piece.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "common/base/printable.h"
#include "common/base/utf8_bytes.h"
#include "common/text/byte_alphabet.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

using Type = SentencePiece::Type;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
// Limit on the mean number of ways to make a piece from two others. Published vocabularies have two
// or three; more would let a small file take much memory.
constexpr size_t kMaxMergesPerPiece = 16;

// The text with spaces as marks, if it consists only of spaces of either kind; else "". Gemma's
// runs of spaces are user-defined pieces, which GGUF writes with spaces.
std::string AsSpaceMarks(std::string_view text) {
  std::string marks;
  while (!text.empty()) {
    const size_t size = text.starts_with(kSpaceMark) ? kSpaceMark.size() : 1;
    if (size == 1 && text.front() != ' ') return "";
    marks += kSpaceMark;
    text.remove_prefix(size);
  }
  return marks;
}

// A piece that a merge makes, and its score.
struct Merged {
  TokenId id;
  float score;
};

struct Merge {
  TokenId left, right;
  size_t left_characters, right_characters;
  float score;
};

class MergeFinder {
 public:
  explicit MergeFinder(const TokenizerSpec& spec) : spec_(spec) {
    for (size_t id = 0; id < spec.vocabulary.size(); ++id) {
      if (spec.vocabulary[id].has_value()) {
        ids_.emplace(*spec.vocabulary[id], static_cast<TokenId>(id));
      }
    }
  }

  // Appends the ways to make the piece from two others, in the order of their ids.
  void Find(const Merged& merged, std::vector<Merge>* merges) const {
    const std::string_view text = *spec_.vocabulary[static_cast<size_t>(merged.id)];
    const size_t first = merges->size();
    for (size_t pos = 1; pos < text.size(); ++pos) {
      if (IsContinuationByte(text[pos])) continue;  // within a character
      const auto left = ids_.find(text.substr(0, pos));
      if (left == ids_.end()) continue;
      const auto right = ids_.find(text.substr(pos));
      if (right == ids_.end()) continue;
      merges->push_back({left->second, right->second, CountCharacters(left->first),
                         CountCharacters(right->first), merged.score});
    }
    std::sort(merges->begin() + static_cast<std::ptrdiff_t>(first), merges->end(),
              [](const Merge& a, const Merge& b) {
                return std::tie(a.left, a.right) < std::tie(b.left, b.right);
              });
  }

 private:
  const TokenizerSpec& spec_;
  std::unordered_map<std::string_view, TokenId> ids_;
};

// Best first: by the score of the result; among ways to make the same piece, the longest left half
// first. (transformers, convert_slow_tokenizer.py, generate_merges.)
Status FillMerges(const std::vector<Merged>& merged, TokenizerSpec* spec) {
  std::vector<Merge> merges;
  const MergeFinder finder(*spec);
  const size_t max_merges = kMaxMergesPerPiece * spec->vocabulary.size();
  for (const Merged& piece : merged) {
    finder.Find(piece, &merges);
    OUTRIDER_TRY(CheckAtMost("merges of the pieces", static_cast<int64_t>(merges.size()),
                             static_cast<int64_t>(max_merges)));
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left_characters, a.right_characters) >
           std::tie(b.score, b.left_characters, b.right_characters);
  });
  spec->merges.reserve(merges.size());
  for (const Merge& merge : merges) {
    spec->merges.emplace_back(*spec->vocabulary[static_cast<size_t>(merge.left)],
                              *spec->vocabulary[static_cast<size_t>(merge.right)]);
  }
  return Status();
}

Status CheckText(const std::string& text, size_t id) {
  const std::string piece = "piece " + std::to_string(id);
  if (text.empty()) return InvalidArgument(piece + " is empty");
  OUTRIDER_TRY(CheckAtMost(piece, static_cast<int64_t>(text.size()), kMaxPieceBytes, "bytes"));
  if (FindInvalidUtf8(text).has_value()) {
    return InvalidArgument(piece + ", \"" + Printable(text) + "\", is not UTF-8");
  }
  return Status();
}

// Adds one piece to the vocabulary or the added tokens.
Status AddPiece(const SentencePiece& piece, TokenId id, TokenizerSpec* spec,
                std::vector<Merged>* merged) {
  std::optional<std::string>& entry = spec->vocabulary[static_cast<size_t>(id)];
  switch (piece.type) {
    case Type::kNormal:
      entry = piece.text;
      merged->push_back({id, piece.score});
      return Status();
    case Type::kUnused:
    case Type::kByte: entry = piece.text; return Status();
    case Type::kUserDefined:
      if (std::string marks = AsSpaceMarks(piece.text); !marks.empty()) {
        entry = std::move(marks);
        // It is found before any other piece.
        merged->push_back({id, std::numeric_limits<float>::max()});
      } else {
        spec->added_tokens.push_back({.id = id, .content = piece.text});
      }
      return Status();
    case Type::kUnknown:
      if (spec->unk_token.has_value()) {
        return InvalidArgument("piece " + std::to_string(id) + " is a second unknown piece");
      }
      spec->unk_token = piece.text;
      [[fallthrough]];
    case Type::kControl:
      spec->added_tokens.push_back({.id = id, .content = piece.text, .special = true});
      return Status();
  }
  return InvalidArgument("piece " + std::to_string(id) + " has the unknown type " +
                         std::to_string(static_cast<int>(piece.type)));
}

// Adds steps that replace spaces by marks, before and after.
void FillSpaces(bool adds_space, TokenizerSpec* spec) {
  const std::string mark(kSpaceMark);
  if (adds_space) spec->normalizer.emplace_back(PrependStep{mark});
  spec->normalizer.emplace_back(ReplaceStep{{.text = " ", .regex = false}, mark});
  spec->replacements.emplace_back(mark, " ");
  spec->strip_leading_space = adds_space;
}

// Adds the pieces to the vocabulary and the added tokens; `merged`: those made from others.
Status FillPieces(const std::vector<SentencePiece>& pieces, TokenizerSpec* spec,
                  std::vector<Merged>* merged) {
  spec->vocabulary.resize(pieces.size());
  size_t bytes = 0;
  for (size_t id = 0; id < pieces.size(); ++id) {
    OUTRIDER_TRY(CheckText(pieces[id].text, id));
    OUTRIDER_TRY(AddPiece(pieces[id], static_cast<TokenId>(id), spec, merged));
    bytes += pieces[id].type == Type::kByte ? 1 : 0;
  }
  spec->fuse_unk = true;
  spec->byte_fallback = bytes >= 256;
  return Status();
}

}  // namespace

Status FillSentencePieceBpe(const std::vector<SentencePiece>& pieces, bool adds_space,
                            TokenizerSpec* spec) {
  std::vector<Merged> merged;
  OUTRIDER_TRY(FillPieces(pieces, spec, &merged));
  OUTRIDER_TRY(FillMerges(merged, spec));
  FillSpaces(adds_space, spec);
  return Status();
}

Status FillSentencePieceUnigram(const std::vector<SentencePiece>& pieces, bool adds_space,
                                TokenizerSpec* spec) {
  std::vector<Merged> merged;
  OUTRIDER_TRY(FillPieces(pieces, spec, &merged));
  spec->model = TokenModelKind::kUnigram;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const SentencePiece& piece = pieces[id];
    spec->scores.push_back(static_cast<double>(piece.score));
    if (piece.type == Type::kUnknown) spec->unk_id = static_cast<TokenId>(id);
    // It never becomes part of a text, whatever its spelling.
    if (piece.type == Type::kUnused) spec->vocabulary[id].reset();
  }
  FillSpaces(adds_space, spec);
  return Status();
}

}  // namespace outrider
