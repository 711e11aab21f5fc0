// The content of a tokenizer.json, checked and in plain structs: filled by the parser
// (tokenizer_json) and used by the classes of this folder. Field names follow the file's.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/types.h"

namespace outrider {

struct PatternSpec {
  std::string text;
  bool regex = false;  // false: a literal
};

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
struct UnicodeFormStep {
  UnicodeForm form = UnicodeForm::kNfc;
};
struct PrependStep {
  std::string content;
};
struct ReplaceStep {
  PatternSpec pattern;
  std::string content;
};
struct LowercaseStep {};
struct StripAccentsStep {};
// Removes white space at the ends of the text.
struct StripStep {
  bool left = true;
  bool right = true;
};
struct NmtStep {};
struct BertStep {
  bool clean_text = true;        // remove control characters, and replace white space by spaces
  bool separate_chinese = true;  // put spaces around each Chinese character
  bool strip_accents = true;
  bool lowercase = true;
};
// sentencepiece's table of replacements; see CharacterMap.
struct PrecompiledStep {
  std::string map;
};
using NormalizerStep =
    std::variant<UnicodeFormStep, PrependStep, ReplaceStep, LowercaseStep, StripAccentsStep,
                 StripStep, NmtStep, BertStep, PrecompiledStep>;

// What the matches of a Split become: separate pieces, nothing, or a part of the previous or next
// piece. kContiguous: adjacent matches form one piece.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStep {
  PatternSpec pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // matches are what the pattern does not match
};

enum class PrependScheme {
  kAlways,  // before every piece
  kFirst,   // only at the very start of the text
  kNever,
};

// SentencePiece's treatment of spaces: each becomes `replacement`, which also goes before the text
// unless it is already there.
struct MetaspaceStep {
  std::string replacement;
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = true;  // a piece per replacement character; false: the text stays whole
};

// ByteLevel's add_prefix_space: a piece that does not start with a space gets one.
struct PrefixSpaceStep {};

// UnicodeScripts: a piece for each run of one script (ScriptOf). Characters without a script go
// with those before them; where none comes before them in a piece, they are dropped.
struct ScriptsStep {};

using PreTokenizerStep = std::variant<SplitStep, MetaspaceStep, PrefixSpaceStep, ScriptsStep>;

struct AddedTokenSpec {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized =
      false;            // matched in the normalized text, and its own content is normalized as well
  bool lstrip = false;  // takes the white space before it
  bool rstrip = false;  // takes the white space after it
  bool single_word = false;  // only if no word character is adjacent
};

// How a piece is split into tokens.
enum class TokenModelKind { kBpe, kUnigram, kWordPiece };

struct TokenizerSpec {
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;

  // model. The vocabulary is indexed by id; nullopt: no token has this id.
  TokenModelKind model = TokenModelKind::kBpe;
  std::vector<std::optional<std::string>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::optional<std::string> unk_token;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a piece that is a token stays one, whatever the merges
  bool byte_level = false;     // GPT-2's alphabet: a character of a token represents a byte
  // For Unigram, by id.
  std::vector<double> scores;
  TokenId unk_id = -1;  // of Unigram, the token of unk_token; -1: none
  // For WordPiece: the prefix of tokens within a word, and the most characters of a word.
  std::string continuing_prefix;
  size_t most_word_characters = 0;

  // decoder.
  std::vector<std::pair<std::string, std::string>> replacements;  // within a token's text
  bool strip_leading_space = false;                               // one, at the start of the text
  // For WordPiece: a space goes before each token without this prefix. Empty: never.
  std::string joined_prefix;
  bool joins_punctuation = false;  // WordPiece's "cleanup": no space before "." and similar

  std::vector<AddedTokenSpec> added_tokens;
  std::vector<TokenId> prompt_prefix;
  std::vector<TokenId> prompt_suffix;
};

}  // namespace outrider
