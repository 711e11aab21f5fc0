#include "common/text/tokenizer_steps.h"

#include <optional>
#include <string_view>
#include <utility>

#include "common/base/printable.h"
#include "common/text/character_map.h"
#include "common/text/split_patterns.h"

namespace outrider {
namespace {

// Texts that a normalizer inserts have a character or two. Longer ones would let a small text grow
// without bound.
constexpr size_t kMaxInsertedBytes = 16;

Result<PatternSpec> ParsePattern(const JsonValue& node) {
  if (node.is_string()) return PatternSpec{node.text(), false};
  OUTRIDER_TRY(node.MustBeObject());
  const bool regex = !node["Regex"].is_null();
  OUTRIDER_ASSIGN(std::string text, node[regex ? "Regex" : "String"].String());
  return PatternSpec{std::move(text), regex};
}

Result<std::string> ParseInserted(const JsonValue& node) {
  OUTRIDER_ASSIGN(std::string content, node.String());
  if (content.size() > kMaxInsertedBytes) {
    return node.Error(std::to_string(content.size()) + " bytes, limit " +
                      std::to_string(kMaxInsertedBytes));
  }
  return content;
}

std::optional<UnicodeForm> FormOf(const std::string& type) {
  if (type == "NFC") return UnicodeForm::kNfc;
  if (type == "NFD") return UnicodeForm::kNfd;
  if (type == "NFKC") return UnicodeForm::kNfkc;
  if (type == "NFKD") return UnicodeForm::kNfkd;
  return std::nullopt;
}

Result<NormalizerStep> ParseStripNormalizer(const JsonValue& node) {
  StripStep step;
  OUTRIDER_TRY(node["strip_left"].Read(&step.left));
  OUTRIDER_TRY(node["strip_right"].Read(&step.right));
  return NormalizerStep(step);
}

Result<NormalizerStep> ParseBertNormalizer(const JsonValue& node) {
  BertStep step;
  OUTRIDER_TRY(node["clean_text"].Read(&step.clean_text));
  OUTRIDER_TRY(node["handle_chinese_chars"].Read(&step.separate_chinese));
  OUTRIDER_TRY(node["lowercase"].Read(&step.lowercase));
  step.strip_accents = step.lowercase;
  OUTRIDER_TRY(node["strip_accents"].Read(&step.strip_accents));
  return NormalizerStep(step);
}

Result<SplitBehavior> ParseBehavior(const JsonValue& node) {
  std::string name = "Isolated";
  OUTRIDER_TRY(node.Read(&name));
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return node.Wrong("a split behavior");
}

Result<PrependScheme> ParsePrependScheme(const JsonValue& metaspace) {
  // Older files have add_prefix_space, newer ones may have both.
  bool add_prefix_space = true;
  OUTRIDER_TRY(metaspace["add_prefix_space"].Read(&add_prefix_space));
  const JsonValue node = metaspace["prepend_scheme"];
  std::string name = add_prefix_space ? "always" : "never";
  OUTRIDER_TRY(node.Read(&name));
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  return node.Wrong("always, first or never");
}

Result<MetaspaceStep> ParseMetaspace(const JsonValue& node) {
  MetaspaceStep step;
  OUTRIDER_ASSIGN(step.replacement, ParseInserted(node["replacement"]));
  if (step.replacement.empty()) return node["replacement"].Error("is empty");
  OUTRIDER_ASSIGN(step.prepend_scheme, ParsePrependScheme(node));
  OUTRIDER_TRY(node["split"].Read(&step.split));
  return step;
}

Status ParseByteLevel(const JsonValue& node, TokenizerSpec& spec) {
  spec.byte_level = true;
  bool prefix_space = true, use_regex = true;
  OUTRIDER_TRY(node["add_prefix_space"].Read(&prefix_space));
  OUTRIDER_TRY(node["use_regex"].Read(&use_regex));
  if (prefix_space) spec.pre_tokenizer.emplace_back(PrefixSpaceStep{});
  if (use_regex) {
    spec.pre_tokenizer.emplace_back(
        SplitStep{.pattern = {.text = std::string(kGpt2Pattern), .regex = true},
                  .behavior = SplitBehavior::kIsolated,
                  .invert = false});
  }
  return Status();
}

Result<PreTokenizerStep> ParseSplit(const JsonValue& node) {
  SplitStep step;
  OUTRIDER_ASSIGN(step.pattern, ParsePattern(node["pattern"]));
  OUTRIDER_ASSIGN(step.behavior, ParseBehavior(node["behavior"]));
  OUTRIDER_TRY(node["invert"].Read(&step.invert));
  return PreTokenizerStep(std::move(step));
}

Result<PreTokenizerStep> ParseDigits(const JsonValue& node) {
  bool individual = false;
  OUTRIDER_TRY(node["individual_digits"].Read(&individual));
  return PreTokenizerStep(
      SplitStep{.pattern = {.text = individual ? "\\p{N}" : "\\p{N}+", .regex = true},
                .behavior = SplitBehavior::kIsolated,
                .invert = false});
}

// A Split by our own expression.
PreTokenizerStep SplitBy(std::string_view pattern, SplitBehavior behavior, bool invert = false) {
  return SplitStep{.pattern = {.text = std::string(pattern), .regex = true},
                   .behavior = behavior,
                   .invert = invert};
}

// Pre-tokenizers that are one or two Splits under a name; empty: it is not such a name.
Result<std::vector<PreTokenizerStep>> ParseNamedSplit(const JsonValue& node,
                                                      const std::string& type) {
  // ASCII punctuation counts, whatever its category in Unicode.
  constexpr std::string_view kMark = "[\\p{P}!-/:-@\\[-`{-~]";
  // \w in the regex syntax of Unicode TR 18, or anything else that is not a space.
  constexpr std::string_view kWords =
      "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]+|"
      "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}\\s]+";
  std::vector<PreTokenizerStep> steps;
  if (type == "Whitespace") {
    steps.push_back(SplitBy(kWords, SplitBehavior::kRemoved, /*invert=*/true));
  } else if (type == "WhitespaceSplit") {
    steps.push_back(SplitBy("\\s", SplitBehavior::kRemoved));
  } else if (type == "BertPreTokenizer") {
    steps.push_back(SplitBy("\\s", SplitBehavior::kRemoved));
    steps.push_back(SplitBy(kMark, SplitBehavior::kIsolated));
  } else if (type == "Punctuation") {
    OUTRIDER_ASSIGN(const SplitBehavior behavior, ParseBehavior(node["behavior"]));
    steps.push_back(SplitBy(kMark, behavior));
  } else if (type == "CharDelimiterSplit") {
    OUTRIDER_ASSIGN(std::string delimiter, node["delimiter"].String());
    if (delimiter.empty()) return node["delimiter"].Error("is empty");
    steps.push_back(SplitStep{.pattern = {.text = std::move(delimiter), .regex = false},
                              .behavior = SplitBehavior::kRemoved});
  }
  return steps;
}

Status ParseReplaceDecoder(const JsonValue& node, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(PatternSpec pattern, ParsePattern(node["pattern"]));
  OUTRIDER_ASSIGN(std::string content, node["content"].String());
  if (pattern.regex || pattern.text.empty() || content.size() > pattern.text.size()) {
    return Unimplemented(node.path() + ": only a literal pattern with a content no longer than it");
  }
  spec.replacements.emplace_back(std::move(pattern.text), std::move(content));
  return Status();
}

Status ParseStripDecoder(const JsonValue& node, TokenizerSpec& spec) {
  if (!node["content"].Is(" ") || !node["start"].Is(1) || !node["stop"].Is(0)) {
    return Unimplemented(node.path() + ": only one space at the start");
  }
  spec.strip_leading_space = true;
  return Status();
}

Status ParseWordPieceDecoder(const JsonValue& node, TokenizerSpec& spec) {
  spec.joined_prefix = "##";
  OUTRIDER_TRY(node["prefix"].Read(&spec.joined_prefix));
  if (spec.joined_prefix.empty()) return node["prefix"].Error("is empty");
  spec.joins_punctuation = true;
  OUTRIDER_TRY(node["cleanup"].Read(&spec.joins_punctuation));
  spec.strip_leading_space = true;
  return Status();
}

}  // namespace

Status UnknownStep(const JsonValue& step, const std::string& type) {
  return Unimplemented(step.path() + ": the type \"" + Printable(type, kMaxShownText) +
                       "\" is not supported");
}

Result<std::vector<JsonValue>> TokenizerSteps(const JsonValue& root, const char* list_key) {
  std::vector<JsonValue> out;
  std::vector<JsonValue> open = {root};  // a stack
  while (!open.empty()) {
    const JsonValue node = std::move(open.back());
    open.pop_back();
    if (node.is_null()) continue;
    OUTRIDER_TRY(node.MustBeObject());
    OUTRIDER_ASSIGN(const std::string type, node["type"].String());
    if (type != "Sequence") {
      out.push_back(node);
      continue;
    }
    const JsonValue list = node[list_key];
    OUTRIDER_TRY(list.MustBeArray());
    for (size_t i = list.size(); i > 0; --i) open.push_back(list[i - 1]);
  }
  return out;
}

Status ParseNormalizer(const JsonValue& root, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(const std::vector<JsonValue> steps, TokenizerSteps(root, "normalizers"));
  for (const JsonValue& step : steps) {
    OUTRIDER_ASSIGN(const std::string type, step["type"].String());
    if (const std::optional<UnicodeForm> form = FormOf(type)) {
      spec.normalizer.emplace_back(UnicodeFormStep{*form});
    } else if (type == "Lowercase") {
      spec.normalizer.emplace_back(LowercaseStep{});
    } else if (type == "StripAccents") {
      spec.normalizer.emplace_back(StripAccentsStep{});
    } else if (type == "Nmt") {
      spec.normalizer.emplace_back(NmtStep{});
    } else if (type == "Strip") {
      OUTRIDER_ASSIGN(NormalizerStep strip, ParseStripNormalizer(step));
      spec.normalizer.push_back(std::move(strip));
    } else if (type == "BertNormalizer") {
      OUTRIDER_ASSIGN(NormalizerStep bert, ParseBertNormalizer(step));
      spec.normalizer.push_back(std::move(bert));
    } else if (type == "Precompiled") {
      OUTRIDER_ASSIGN(const std::string map, step["precompiled_charsmap"].String());
      const std::optional<std::string> bytes = FromBase64(map);
      if (!bytes.has_value()) return step["precompiled_charsmap"].Error("is not base64");
      if (!bytes->empty()) spec.normalizer.emplace_back(PrecompiledStep{*bytes});
    } else if (type == "Prepend") {
      OUTRIDER_ASSIGN(std::string content, ParseInserted(step["prepend"]));
      spec.normalizer.emplace_back(PrependStep{std::move(content)});
    } else if (type == "Replace") {
      OUTRIDER_ASSIGN(PatternSpec pattern, ParsePattern(step["pattern"]));
      OUTRIDER_ASSIGN(std::string content, ParseInserted(step["content"]));
      spec.normalizer.emplace_back(ReplaceStep{std::move(pattern), std::move(content)});
    } else {
      return UnknownStep(step, type);
    }
  }
  return Status();
}

Status ParsePreTokenizer(const JsonValue& root, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(const std::vector<JsonValue> steps, TokenizerSteps(root, "pretokenizers"));
  for (const JsonValue& step : steps) {
    OUTRIDER_ASSIGN(const std::string type, step["type"].String());
    // A step after ByteLevel would see its alphabet instead of the text.
    if (spec.byte_level) return Unimplemented(step.path() + ": a step after ByteLevel");
    if (type == "ByteLevel") {
      OUTRIDER_TRY(ParseByteLevel(step, spec));
    } else if (type == "Split") {
      OUTRIDER_ASSIGN(PreTokenizerStep split, ParseSplit(step));
      spec.pre_tokenizer.push_back(std::move(split));
    } else if (type == "Digits") {
      OUTRIDER_ASSIGN(PreTokenizerStep digits, ParseDigits(step));
      spec.pre_tokenizer.push_back(std::move(digits));
    } else if (type == "UnicodeScripts") {
      spec.pre_tokenizer.emplace_back(ScriptsStep{});
    } else if (type == "Metaspace") {
      OUTRIDER_ASSIGN(MetaspaceStep metaspace, ParseMetaspace(step));
      spec.pre_tokenizer.emplace_back(std::move(metaspace));
    } else {
      OUTRIDER_ASSIGN(std::vector<PreTokenizerStep> splits, ParseNamedSplit(step, type));
      if (splits.empty()) return UnknownStep(step, type);
      spec.pre_tokenizer.insert(spec.pre_tokenizer.end(), splits.begin(), splits.end());
    }
  }
  return Status();
}

Status ParseDecoder(const JsonValue& root, TokenizerSpec& spec, bool& byte_fallback) {
  OUTRIDER_ASSIGN(const std::vector<JsonValue> steps, TokenizerSteps(root, "decoders"));
  for (const JsonValue& step : steps) {
    OUTRIDER_ASSIGN(const std::string type, step["type"].String());
    if (type == "ByteLevel") {
      spec.byte_level = true;
    } else if (type == "Replace") {
      OUTRIDER_TRY(ParseReplaceDecoder(step, spec));
    } else if (type == "Strip") {
      OUTRIDER_TRY(ParseStripDecoder(step, spec));
    } else if (type == "Metaspace") {
      OUTRIDER_ASSIGN(const MetaspaceStep metaspace, ParseMetaspace(step));
      spec.replacements.emplace_back(metaspace.replacement, " ");
      spec.strip_leading_space |= metaspace.prepend_scheme != PrependScheme::kNever;
    } else if (type == "WordPiece") {
      OUTRIDER_TRY(ParseWordPieceDecoder(step, spec));
    } else if (type == "ByteFallback") {
      byte_fallback = true;
    } else if (type != "Fuse") {
      return UnknownStep(step, type);
    }
  }
  return Status();
}

}  // namespace outrider
