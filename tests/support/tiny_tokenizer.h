// A tokenizer with a few one-letter tokens ("a", "b", ...) for models with tiny vocabularies.
#pragma once

#include <string>
#include <vector>

namespace outrider::testing {

// "a" to "z".
inline constexpr int kLetters = 26;

// tokenizer.json of a byte-level BPE without merges: the letters and digits `tokens`, followed by
// the special tokens `special`.
inline std::string TokenizerJsonOf(const std::vector<std::string>& tokens,
                                   const std::vector<std::string>& special = {}) {
  std::string vocab, added;
  size_t id = 0;
  for (const std::string& token : tokens) {
    vocab += (id == 0 ? "\"" : ",\"") + token + "\":" + std::to_string(id);
    ++id;
  }
  for (const std::string& token : special) {
    added += std::string(added.empty() ? "" : ",") + "{\"id\":" + std::to_string(id++) +
             ",\"content\":\"" + token + "\",\"special\":true}";
  }
  return R"({"version":"1.0","added_tokens":[)" + added +
         R"(],"normalizer":null,)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
         R"("decoder":{"type":"ByteLevel"},)"
         R"("model":{"type":"BPE","vocab":{)" +
         vocab + R"(},"merges":[]}})";
}

// tokenizer.json of a byte-level BPE without merges; `vocab_size` at most 52.
inline std::string TinyTokenizerJson(int vocab_size) {
  std::string vocab;
  for (int i = 0; i < vocab_size; ++i) {
    const char letter = static_cast<char>(i < 26 ? 'a' + i : 'A' + i - 26);
    if (i > 0) vocab += ",";
    vocab += "\"" + std::string(1, letter) + "\":" + std::to_string(i);
  }
  return R"({"version":"1.0","added_tokens":[],"normalizer":null,)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
         R"("decoder":{"type":"ByteLevel"},)"
         R"("model":{"type":"BPE","vocab":{)" +
         vocab + R"(},"merges":[]}})";
}

// The same with all of printable ASCII, space and newline: "a" to "z" are 0 to 25.
inline constexpr int kAsciiTokens = 96;
inline std::string AsciiTokenizerJson() {
  std::string vocab = R"("\u0120":94,"\u010a":95)";  // the byte alphabet's space and newline
  int id = 26;
  for (char c = '!'; c <= '~'; ++c) {
    const bool lower = c >= 'a' && c <= 'z';
    const std::string escaped = std::string(c == '"' || c == '\\' ? "\\" : "") + c;
    vocab += ",\"" + escaped + "\":" + std::to_string(lower ? c - 'a' : id++);
  }
  return R"({"version":"1.0","added_tokens":[],"normalizer":null,)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
         R"("decoder":{"type":"ByteLevel"},)"
         R"("model":{"type":"BPE","vocab":{)" +
         vocab + R"(},"merges":[]}})";
}

// The same with special tokens: kBosToken "<s>", which begins prompts, and kMarkToken "<x>".
inline constexpr int kBosToken = kAsciiTokens, kMarkToken = kAsciiTokens + 1;
inline constexpr int kSpecialTokens = kAsciiTokens + 2;
inline std::string SpecialTokenizerJson() {
  std::string json = AsciiTokenizerJson();
  const auto replace = [&json](const std::string& from, const std::string& to) {
    json.replace(json.find(from), from.size(), to);
  };
  replace(R"("added_tokens":[])",
          R"("added_tokens":[{"id":96,"content":"<s>","special":true},)"
          R"({"id":97,"content":"<x>","special":true}],"post_processor":)"
          R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
          R"({"Sequence":{"id":"A","type_id":0}}],)"
          R"("special_tokens":{"<s>":{"id":"<s>","ids":[96],"tokens":["<s>"]}}})");
  return json;
}

}  // namespace outrider::testing
