// Any tokenizer.json (the input up to its first zero byte; "b" and "s" alone mean the two
// tokenizers below) is rejected, or it encodes any text to ids of its vocabulary and decodes any
// ids to well-formed text, with the same result streamed and at once. No text is longer than the
// bound for its number of tokens.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/byte_alphabet.h"
#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "common/text/tokenizer.h"
#include "common/text/utf8.h"
#include "tests/fuzz/fuzz_input.h"

namespace outrider::fuzz {
namespace {

// Every byte, and a few merges.
std::string ByteLevel() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string name = ByteToCharacter(static_cast<uint8_t>(byte));
    if (name == "\"" || name == "\\") name.insert(0, "\\");
    vocab += "\"" + name + "\":" + std::to_string(byte) + ",";
  }
  return R"({"added_tokens":[{"id":259,"content":"<|end|>","special":true},)"
         R"({"id":260,"content":"  ","special":false}],)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
         R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" +
         vocab + R"("aa":256,"aaaa":257,"ab":258},"merges":["a a","aa aa","a b"]}})";
}

std::string SentencePiece() {
  std::string vocab = R"("<unk>":0)";
  for (int byte = 0; byte < 256; ++byte) {
    vocab += ",\"" + ByteTokenName(static_cast<uint8_t>(byte)) + "\":" + std::to_string(byte + 1);
  }
  return R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
         R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]},)"
         R"("decoder":{"type":"Sequence","decoders":[)"
         R"({"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},)"
         R"({"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},)"
         R"("model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"vocab":{)" +
         vocab + R"(,"▁":257,"a":258,"▁a":259},"merges":["▁ a"]}})";
}

void CheckDecode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  const std::string text = tokenizer.Decode(ids, skip_special);
  Require(!FindInvalidUtf8(text).has_value());
  Detokenizer detokenizer(tokenizer, skip_special, /*starts_text=*/true);
  std::string streamed;
  for (const TokenId id : ids) streamed += detokenizer.Push(id);
  Require(streamed + detokenizer.Finish() == text);
}

// The output of a stop matcher does not depend on how the text is split.
void CheckStops(std::string_view stop, std::string_view text) {
  StopMatcher whole({std::string(stop), "ab"});
  StopMatcher bytes({std::string(stop), "ab"});
  std::string at_once = whole.Push(text).text;
  at_once += whole.Finish();
  std::string pieces;
  for (const char c : text) pieces += bytes.Push({&c, 1}).text;
  pieces += bytes.Finish();
  Require(at_once == pieces);
}

void Check(const Tokenizer& tokenizer, Input& in, bool restores) {
  const bool parse_special = in.Below(2) == 1;
  const std::string_view rest = in.Rest();
  // The bytes as ids, including a few outside the vocabulary.
  std::vector<TokenId> any;
  for (const char c : rest) any.push_back(static_cast<uint8_t>(c) * 2 - 3);
  CheckDecode(tokenizer, any, parse_special);
  CheckStops(rest.substr(0, 3), rest);

  const auto ids = tokenizer.Encode(rest, parse_special);
  if (!ids.ok()) return;
  Require(!FindInvalidUtf8(rest).has_value());
  Require(rest.size() <= tokenizer.MostBytes(static_cast<int>(ids->size())));
  for (const TokenId id : *ids) Require(id >= 0 && id < tokenizer.vocab_size());
  CheckDecode(tokenizer, *ids, /*skip_special=*/false);
  // A SentencePiece tokenizer cannot distinguish this character from a space.
  if (restores && rest.find("▁") == std::string_view::npos) {
    Require(tokenizer.Decode(*ids, /*skip_special=*/false) == rest);
  }
}

std::unique_ptr<Tokenizer> Make(const std::string& json) {
  return std::move(Tokenizer::FromJson(json)).value();
}

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using outrider::Tokenizer;
  static const auto byte_level = outrider::fuzz::Make(outrider::fuzz::ByteLevel());
  static const auto sentence_piece = outrider::fuzz::Make(outrider::fuzz::SentencePiece());
  outrider::fuzz::Input in(data, size);
  const std::string_view json = in.UpToZero();
  if (json == "b" || json == "s") {
    outrider::fuzz::Check(json == "b" ? *byte_level : *sentence_piece, in, /*restores=*/true);
    return 0;
  }
  const auto made = Tokenizer::FromJson(json);
  if (made.ok()) outrider::fuzz::Check(**made, in, /*restores=*/false);
  return 0;
}
