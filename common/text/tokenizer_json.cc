#include "common/text/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/input_file.h"
#include "common/text/byte_alphabet.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

// The largest files in use have 35 MB; parsed, a hostile one takes up to 24 times its size.
constexpr size_t kMaxFileBytes = 64 << 20;
constexpr int kMaxDepth = 64;
// Contents that a normalizer inserts are a character or two. Longer ones would let a small text
// grow without bound.
constexpr size_t kMaxInsertedBytes = 16;

// GPT-2's pattern, which ByteLevel applies unless use_regex is false. Source: Radford et al. 2019,
// the released encoder.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string Quoted(std::string_view text) {
  std::string shown(text.substr(0, 64));
  return Json(shown).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// A value and where it stands, for messages.
struct Node {
  const Json* json;
  std::string path;

  Status Error(const std::string& what) const { return DataLoss(path + ": " + what); }
  Status WrongType(const char* wanted) const {
    return Error(std::string("is ") + json->type_name() + ", not " + wanted);
  }
  bool IsNull() const { return json->is_null(); }

  // The member, or null where there is none.
  Node At(const char* key) const {
    static const Json kNull;
    std::string member = path.empty() ? key : path + "." + key;
    if (!json->is_object()) return {&kNull, std::move(member)};
    const auto found = json->find(key);
    return {found == json->end() ? &kNull : &*found, std::move(member)};
  }
  Node At(size_t index) const {
    return {&(*json)[index], path + "[" + std::to_string(index) + "]"};
  }

  Result<std::string> String() const {
    if (!json->is_string()) return WrongType("a string");
    return json->get<std::string>();
  }
  Result<std::string> StringOr(std::string fallback) const {
    if (IsNull()) return fallback;
    return String();
  }
  Result<bool> BoolOr(bool fallback) const {
    if (IsNull()) return fallback;
    if (!json->is_boolean()) return WrongType("true or false");
    return json->get<bool>();
  }
  Result<TokenId> Id() const {
    if (!json->is_number_integer()) return WrongType("a token id");
    // Unsigned first: get<int64_t> of a number above its range would wrap.
    if ((json->is_number_unsigned() && json->get<uint64_t>() >= kMaxVocabulary) ||
        json->get<int64_t>() < 0) {
      return Error("the id " + json->dump() + " is not in [0, " + std::to_string(kMaxVocabulary) +
                   ")");
    }
    return json->get<TokenId>();
  }
  Result<size_t> ListSize() const {
    if (!json->is_array()) return WrongType("a list");
    return json->size();
  }
  Status IsObject() const { return json->is_object() ? Status() : WrongType("an object"); }
};

Status Unknown(const Node& node, const std::string& type) {
  return Unimplemented(node.path + ": the type " + Quoted(type) + " is not supported");
}

// nlohmann's parser keeps its own stack, but what it builds takes 70 bytes a level.
bool IsTooDeep(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Result<Json> ParseJson(std::string_view text) {
  if (text.size() > kMaxFileBytes) {
    return DataLoss(std::to_string(text.size()) + " bytes, limit " + std::to_string(kMaxFileBytes));
  }
  if (IsTooDeep(text)) {
    return DataLoss("nested more than " + std::to_string(kMaxDepth) + " levels deep");
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return DataLoss(std::string("not JSON: ") + error.what());
  }
}

// The elements of a Sequence, or the node itself.
Result<std::vector<Node>> Flatten(const Node& root, const char* list_key) {
  std::vector<Node> out;
  std::vector<Node> open = {root};  // the last is next
  while (!open.empty()) {
    const Node node = std::move(open.back());
    open.pop_back();
    if (node.IsNull()) continue;
    OUTRIDER_TRY(node.IsObject());
    OUTRIDER_ASSIGN(const std::string type, node.At("type").String());
    if (type != "Sequence") {
      out.push_back(node);
      continue;
    }
    const Node list = node.At(list_key);
    OUTRIDER_ASSIGN(const size_t size, list.ListSize());
    for (size_t i = size; i > 0; --i) open.push_back(list.At(i - 1));
  }
  return out;
}

Result<PatternSpec> ParsePattern(const Node& node) {
  if (node.json->is_string()) return PatternSpec{node.json->get<std::string>(), false};
  OUTRIDER_TRY(node.IsObject());
  const bool regex = !node.At("Regex").IsNull();
  OUTRIDER_ASSIGN(std::string text, node.At(regex ? "Regex" : "String").String());
  return PatternSpec{std::move(text), regex};
}

Result<std::string> ParseInserted(const Node& node) {
  OUTRIDER_ASSIGN(std::string content, node.String());
  if (content.size() > kMaxInsertedBytes) {
    return node.Error(std::to_string(content.size()) + " bytes, limit " +
                      std::to_string(kMaxInsertedBytes));
  }
  return content;
}

Status ParseNormalizer(const Node& root, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(const std::vector<Node> steps, Flatten(root, "normalizers"));
  for (const Node& step : steps) {
    OUTRIDER_ASSIGN(const std::string type, step.At("type").String());
    if (type == "NFC") {
      spec.normalizer.emplace_back(NfcStep{});
    } else if (type == "Prepend") {
      OUTRIDER_ASSIGN(std::string content, ParseInserted(step.At("prepend")));
      spec.normalizer.emplace_back(PrependStep{std::move(content)});
    } else if (type == "Replace") {
      OUTRIDER_ASSIGN(PatternSpec pattern, ParsePattern(step.At("pattern")));
      OUTRIDER_ASSIGN(std::string content, ParseInserted(step.At("content")));
      spec.normalizer.emplace_back(ReplaceStep{std::move(pattern), std::move(content)});
    } else {
      return Unknown(step, type);
    }
  }
  return Status();
}

Result<SplitBehavior> ParseBehavior(const Node& node) {
  OUTRIDER_ASSIGN(const std::string name, node.StringOr("Isolated"));
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return node.Error(Quoted(name) + " is no split behavior");
}

Result<PrependScheme> ParsePrependScheme(const Node& metaspace) {
  // Older files say add_prefix_space, the newest ones may say both.
  OUTRIDER_ASSIGN(const bool add_prefix_space, metaspace.At("add_prefix_space").BoolOr(true));
  const Node node = metaspace.At("prepend_scheme");
  OUTRIDER_ASSIGN(const std::string name, node.StringOr(add_prefix_space ? "always" : "never"));
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  return node.Error(Quoted(name) + " is no prepend scheme");
}

Result<MetaspaceStep> ParseMetaspace(const Node& node) {
  MetaspaceStep step;
  OUTRIDER_ASSIGN(step.replacement, ParseInserted(node.At("replacement")));
  if (step.replacement.empty()) return node.At("replacement").Error("is empty");
  OUTRIDER_ASSIGN(step.prepend_scheme, ParsePrependScheme(node));
  OUTRIDER_ASSIGN(step.split, node.At("split").BoolOr(true));
  return step;
}

Status ParseByteLevel(const Node& node, TokenizerSpec& spec) {
  spec.byte_level = true;
  OUTRIDER_ASSIGN(const bool prefix_space, node.At("add_prefix_space").BoolOr(true));
  if (prefix_space) spec.pre_tokenizer.emplace_back(PrefixSpaceStep{});
  OUTRIDER_ASSIGN(const bool use_regex, node.At("use_regex").BoolOr(true));
  if (use_regex) {
    spec.pre_tokenizer.emplace_back(
        SplitStep{.pattern = {.text = std::string(kGpt2Pattern), .regex = true},
                  .behavior = SplitBehavior::kIsolated,
                  .invert = false});
  }
  return Status();
}

Result<PreTokenizerStep> ParseSplit(const Node& node) {
  SplitStep step;
  OUTRIDER_ASSIGN(step.pattern, ParsePattern(node.At("pattern")));
  OUTRIDER_ASSIGN(step.behavior, ParseBehavior(node.At("behavior")));
  OUTRIDER_ASSIGN(step.invert, node.At("invert").BoolOr(false));
  return PreTokenizerStep(std::move(step));
}

Result<PreTokenizerStep> ParseDigits(const Node& node) {
  OUTRIDER_ASSIGN(const bool individual, node.At("individual_digits").BoolOr(false));
  return PreTokenizerStep(
      SplitStep{.pattern = {.text = individual ? "\\p{N}" : "\\p{N}+", .regex = true},
                .behavior = SplitBehavior::kIsolated,
                .invert = false});
}

Status ParsePreTokenizer(const Node& root, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(const std::vector<Node> steps, Flatten(root, "pretokenizers"));
  for (const Node& step : steps) {
    OUTRIDER_ASSIGN(const std::string type, step.At("type").String());
    // What comes behind ByteLevel would see its alphabet instead of the text.
    if (spec.byte_level) return Unimplemented(step.path + ": a step behind ByteLevel");
    if (type == "ByteLevel") {
      OUTRIDER_TRY(ParseByteLevel(step, spec));
    } else if (type == "Split") {
      OUTRIDER_ASSIGN(PreTokenizerStep split, ParseSplit(step));
      spec.pre_tokenizer.push_back(std::move(split));
    } else if (type == "Digits") {
      OUTRIDER_ASSIGN(PreTokenizerStep digits, ParseDigits(step));
      spec.pre_tokenizer.push_back(std::move(digits));
    } else if (type == "Metaspace") {
      OUTRIDER_ASSIGN(MetaspaceStep metaspace, ParseMetaspace(step));
      spec.pre_tokenizer.emplace_back(std::move(metaspace));
    } else {
      return Unknown(step, type);
    }
  }
  return Status();
}

Status ParseReplaceDecoder(const Node& node, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(PatternSpec pattern, ParsePattern(node.At("pattern")));
  OUTRIDER_ASSIGN(std::string content, node.At("content").String());
  if (pattern.regex || pattern.text.empty() || content.size() > pattern.text.size()) {
    return Unimplemented(node.path + ": only a literal pattern with a content no longer than it");
  }
  spec.replacements.emplace_back(std::move(pattern.text), std::move(content));
  return Status();
}

Status ParseStripDecoder(const Node& node, TokenizerSpec& spec) {
  const Json& json = *node.json;
  if (json.value("content", Json()) != " " || json.value("start", Json()) != 1 ||
      json.value("stop", Json()) != 0) {
    return Unimplemented(node.path + ": only one space at the start");
  }
  spec.strip_leading_space = true;
  return Status();
}

Status ParseDecoder(const Node& root, TokenizerSpec& spec, bool& byte_fallback) {
  OUTRIDER_ASSIGN(const std::vector<Node> steps, Flatten(root, "decoders"));
  for (const Node& step : steps) {
    OUTRIDER_ASSIGN(const std::string type, step.At("type").String());
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
    } else if (type == "ByteFallback") {
      byte_fallback = true;
    } else if (type != "Fuse") {
      return Unknown(step, type);
    }
  }
  return Status();
}

Status ParseVocabulary(const Node& node, TokenizerSpec& spec) {
  OUTRIDER_TRY(node.IsObject());
  for (const auto& [token, id_json] : node.json->items()) {
    const auto where = [&node, &token = token] { return node.path + "[" + Quoted(token) + "]"; };
    const Result<TokenId> id = Node{&id_json, ""}.Id();
    if (!id.ok()) return Node{&id_json, where()}.Id().status();
    if (static_cast<size_t>(*id) >= spec.vocabulary.size()) spec.vocabulary.resize(*id + 1);
    std::optional<std::string>& entry = spec.vocabulary[*id];
    if (entry.has_value()) {
      return DataLoss(where() + ": has the id " + std::to_string(*id) + " of " + Quoted(*entry));
    }
    entry = token;
  }
  return Status();
}

// "a b" or ["a", "b"]; the second form can hold tokens with spaces.
Result<std::pair<std::string, std::string>> ParseMerge(const Json& json) {
  std::pair<std::string, std::string> merge;
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return DataLoss(Quoted(text) + " is not two tokens with a space between");
    }
    merge = {text.substr(0, space), text.substr(space + 1)};
  } else if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
    merge = {json[0].get<std::string>(), json[1].get<std::string>()};
  } else {
    return DataLoss("is neither a string nor a pair of strings");
  }
  if (merge.first.empty() || merge.second.empty()) return DataLoss("has an empty part");
  return merge;
}

Status ParseMerges(const Node& node, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(const size_t size, node.ListSize());
  spec.merges.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    auto merge = ParseMerge((*node.json)[i]);
    if (!merge.ok()) return merge.status().Annotate(node.At(i).path);
    spec.merges.push_back(std::move(merge).value());
  }
  return Status();
}

bool HasAllByteTokens(const TokenizerSpec& spec) {
  int count = 0;
  for (const auto& token : spec.vocabulary) {
    count += token.has_value() && ParseByteTokenName(*token).has_value();
  }
  return count >= 256;
}

Status ParseModel(const Node& model, bool decoder_falls_back, TokenizerSpec& spec) {
  OUTRIDER_TRY(model.IsObject());
  OUTRIDER_ASSIGN(const std::string type, model.At("type").StringOr("BPE"));
  if (type != "BPE") return Unknown(model, type);
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    OUTRIDER_ASSIGN(const std::string text, model.At(affix).StringOr(""));
    if (!text.empty()) return Unimplemented(model.At(affix).path + ": only \"\" is supported");
  }
  const Node dropout = model.At("dropout");
  if (!dropout.IsNull() && *dropout.json != 0) {
    return Unimplemented(dropout.path + ": encoding by chance is not supported");
  }
  OUTRIDER_TRY(ParseVocabulary(model.At("vocab"), spec));
  OUTRIDER_TRY(ParseMerges(model.At("merges"), spec));
  if (const Node unk = model.At("unk_token"); !unk.IsNull()) {
    OUTRIDER_ASSIGN(spec.unk_token, unk.String());
  }
  OUTRIDER_ASSIGN(spec.fuse_unk, model.At("fuse_unk").BoolOr(false));
  OUTRIDER_ASSIGN(spec.ignore_merges, model.At("ignore_merges").BoolOr(false));
  // Old files lack the field; theirs have the tokens if they mean it.
  OUTRIDER_ASSIGN(const bool byte_fallback,
                  model.At("byte_fallback").BoolOr(decoder_falls_back || HasAllByteTokens(spec)));
  spec.byte_fallback = byte_fallback && !spec.byte_level;
  return Status();
}

Result<AddedTokenSpec> ParseAddedToken(const Node& node) {
  OUTRIDER_TRY(node.IsObject());
  AddedTokenSpec token;
  OUTRIDER_ASSIGN(token.id, node.At("id").Id());
  OUTRIDER_ASSIGN(token.content, node.At("content").String());
  if (token.content.empty()) return node.At("content").Error("is empty");
  OUTRIDER_ASSIGN(token.special, node.At("special").BoolOr(false));
  OUTRIDER_ASSIGN(token.normalized, node.At("normalized").BoolOr(false));
  OUTRIDER_ASSIGN(token.lstrip, node.At("lstrip").BoolOr(false));
  OUTRIDER_ASSIGN(token.rstrip, node.At("rstrip").BoolOr(false));
  OUTRIDER_ASSIGN(token.single_word, node.At("single_word").BoolOr(false));
  return token;
}

Status ParseAddedTokens(const Node& node, TokenizerSpec& spec) {
  if (node.IsNull()) return Status();
  OUTRIDER_ASSIGN(const size_t size, node.ListSize());
  size_t bytes = 0;
  for (size_t i = 0; i < size; ++i) {
    OUTRIDER_ASSIGN(AddedTokenSpec token, ParseAddedToken(node.At(i)));
    bytes += token.content.size();
    if (bytes > kMaxAddedTokenBytes) {
      return node.Error("more than " + std::to_string(kMaxAddedTokenBytes) + " bytes of contents");
    }
    spec.added_tokens.push_back(std::move(token));
  }
  return Status();
}

// The special tokens of a TemplateProcessing's "single" that stand before the text.
Status ParseTemplate(const Node& node, TokenizerSpec& spec) {
  const Node single = node.At("single");
  OUTRIDER_ASSIGN(const size_t size, single.ListSize());
  std::vector<TokenId> prefix;
  for (size_t i = 0; i < size; ++i) {
    const Node item = single.At(i);
    OUTRIDER_TRY(item.IsObject());
    if (!item.At("Sequence").IsNull()) break;
    OUTRIDER_ASSIGN(const std::string name, item.At("SpecialToken").At("id").String());
    const Node ids = node.At("special_tokens").At(name.c_str()).At("ids");
    OUTRIDER_ASSIGN(const size_t count, ids.ListSize());
    for (size_t k = 0; k < count; ++k) {
      OUTRIDER_ASSIGN(const TokenId id, ids.At(k).Id());
      prefix.push_back(id);
    }
  }
  spec.prompt_prefix.insert(spec.prompt_prefix.begin(), prefix.begin(), prefix.end());
  return Status();
}

Status ParsePostProcessor(const Node& root, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(const std::vector<Node> steps, Flatten(root, "processors"));
  for (const Node& step : steps) {
    OUTRIDER_ASSIGN(const std::string type, step.At("type").String());
    if (type == "TemplateProcessing") {
      OUTRIDER_TRY(ParseTemplate(step, spec));
    } else if (type != "ByteLevel") {  // which moves offsets only
      return Unknown(step, type);
    }
  }
  return Status();
}

// The member `key` as token text: a string, or an object that holds it as "content".
Result<std::optional<std::string>> ParseTokenText(const Node& node) {
  const Node text = node.json->is_object() ? node.At("content") : node;
  if (text.IsNull()) return std::optional<std::string>();
  OUTRIDER_ASSIGN(std::string token, text.String());
  return std::optional<std::string>(std::move(token));
}

Result<std::vector<TokenId>> ParseIds(const Node& node) {
  std::vector<TokenId> ids;
  if (node.IsNull()) return ids;
  const size_t count = node.json->is_array() ? node.json->size() : 1;
  for (size_t i = 0; i < count; ++i) {
    OUTRIDER_ASSIGN(const TokenId id, (node.json->is_array() ? node.At(i) : node).Id());
    ids.push_back(id);
  }
  return ids;
}

// An empty object where the file does not exist.
Result<Json> ReadOptionalObject(const std::filesystem::path& file) {
  Result<std::string> text = ReadJsonFile(file);
  if (text.status().code() == Code::kNotFound) return Json::object();
  if (!text.ok()) return text.status();
  Result<Json> json = ParseJson(*text);
  if (!json.ok()) return json.status().Annotate(file.string());
  if (!json->is_object()) return DataLoss(file.string() + ": is not an object");
  return json;
}

Status ParseTokenizerConfig(const Json& json, ModelRoles& roles) {
  const Node root{&json, "tokenizer_config.json"};
  if (const Node add_bos = root.At("add_bos_token"); !add_bos.IsNull()) {
    OUTRIDER_ASSIGN(roles.add_bos, add_bos.BoolOr(false));
  }
  OUTRIDER_ASSIGN(roles.bos_token, ParseTokenText(root.At("bos_token")));
  OUTRIDER_ASSIGN(roles.eos_token, ParseTokenText(root.At("eos_token")));
  return Status();
}

// Fills only what an earlier file has left open.
Status ParseModelConfig(const Json& json, const char* name, ModelRoles& roles) {
  const Node root{&json, name};
  if (!roles.bos_id.has_value()) {
    OUTRIDER_ASSIGN(const std::vector<TokenId> bos, ParseIds(root.At("bos_token_id")));
    if (!bos.empty()) roles.bos_id = bos.front();
  }
  if (roles.eos_ids.empty()) {
    OUTRIDER_ASSIGN(roles.eos_ids, ParseIds(root.At("eos_token_id")));
  }
  return Status();
}

}  // namespace

Result<TokenizerSpec> ParseTokenizerJson(std::string_view text) {
  OUTRIDER_ASSIGN(const Json json, ParseJson(text));
  const Node root{&json, ""};
  if (!json.is_object()) return DataLoss("the file is not an object");
  TokenizerSpec spec;
  bool decoder_falls_back = false;
  OUTRIDER_TRY(ParseNormalizer(root.At("normalizer"), spec));
  OUTRIDER_TRY(ParsePreTokenizer(root.At("pre_tokenizer"), spec));
  OUTRIDER_TRY(ParseDecoder(root.At("decoder"), spec, decoder_falls_back));
  OUTRIDER_TRY(ParseModel(root.At("model"), decoder_falls_back, spec));
  OUTRIDER_TRY(ParseAddedTokens(root.At("added_tokens"), spec));
  OUTRIDER_TRY(ParsePostProcessor(root.At("post_processor"), spec));
  return spec;
}

Result<ModelRoles> ReadModelRoles(const std::filesystem::path& model_dir) {
  ModelRoles roles;
  OUTRIDER_ASSIGN(const Json tokenizer, ReadOptionalObject(model_dir / "tokenizer_config.json"));
  OUTRIDER_TRY(ParseTokenizerConfig(tokenizer, roles));
  for (const char* name : {"generation_config.json", "config.json"}) {
    OUTRIDER_ASSIGN(const Json config, ReadOptionalObject(model_dir / name));
    OUTRIDER_TRY(ParseModelConfig(config, name, roles));
  }
  return roles;
}

Result<std::string> ReadJsonFile(const std::filesystem::path& file) {
  return ReadFile(file, kMaxFileBytes);
}

}  // namespace outrider
