// What a tokenizer.json says, checked and in plain structs: the parser (tokenizer_json) fills it,
// the classes of this folder are made from it. Field names follow the file's.
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
  bool regex = false;  // false: the text itself
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
// White space at the ends of the text goes.
struct StripStep {
  bool left = true;
  bool right = true;
};
struct NmtStep {};
struct BertStep {
  bool clean_text = true;        // no control characters, and spaces alone for white space
  bool separate_chinese = true;  // spaces around each Chinese character
  bool strip_accents = true;
  bool lowercase = true;
};
// sentencepiece's table of replacements, as CharacterMap reads it.
struct PrecompiledStep {
  std::string map;
};
using NormalizerStep =
    std::variant<UnicodeFormStep, PrependStep, ReplaceStep, LowercaseStep, StripAccentsStep,
                 StripStep, NmtStep, BertStep, PrecompiledStep>;

// What becomes of the matches of a Split: pieces of their own, nothing, or a part of the piece
// before or behind. kContiguous: adjoining matches form one piece.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStep {
  PatternSpec pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what does not match counts as the match
};

enum class PrependScheme {
  kAlways,  // before every piece
  kFirst,   // only at the very start of the text
  kNever,
};

// SentencePiece's treatment of spaces: each becomes `replacement`, which also goes before the text
// unless it is there already.
struct MetaspaceStep {
  std::string replacement;
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = true;  // a piece per replacement character; false: the text stays whole
};

// ByteLevel's add_prefix_space: a piece that starts with no space gets one.
struct PrefixSpaceStep {};

// UnicodeScripts: a piece for each run of one script (ScriptOf). Characters without a script go
// with those before them; where none comes before them in a piece, they are dropped.
struct ScriptsStep {};

using PreTokenizerStep = std::variant<SplitStep, MetaspaceStep, PrefixSpaceStep, ScriptsStep>;

struct AddedTokenSpec {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   // matched in the normalized text, its content normalized too
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool single_word = false;  // only where no word character adjoins
};

// What makes tokens of a piece.
enum class TokenModelKind { kBpe, kUnigram, kWordPiece };

struct TokenizerSpec {
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;

  // model. The vocabulary is indexed by id; nullopt: no token of that id.
  TokenModelKind model = TokenModelKind::kBpe;
  std::vector<std::optional<std::string>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::optional<std::string> unk_token;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool byte_level = false;     // GPT-2's alphabet: a character of a token stands for a byte
  // Of Unigram: by id.
  std::vector<double> scores;
  TokenId unk_id = -1;  // of Unigram, the token of unk_token; -1: none
  // Of WordPiece: what tokens within a word begin with, and the characters of a word at most.
  std::string continuing_prefix;
  size_t most_word_characters = 0;

  // decoder.
  std::vector<std::pair<std::string, std::string>> replacements;  // within a token's text
  bool strip_leading_space = false;  // one space, at the start of the text
  // Of WordPiece: a space goes before each token that does not begin so. Empty: not at all.
  std::string joined_prefix;
  bool joins_punctuation = false;  // WordPiece's "cleanup": no space before "." and its like

  std::vector<AddedTokenSpec> added_tokens;
  std::vector<TokenId> prompt_prefix;
  std::vector<TokenId> prompt_suffix;
};

}  // namespace outrider
