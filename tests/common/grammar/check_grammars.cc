// Evaluates grammars on texts, for oracle_test.py. Reads one JSON object per line:
//   {"kind": "regex", "text": "a+", "choices": [], "texts": ["a", "b"], "walks": 10, "seed": 1,
//    "pieces": ["ab"]}
// `kind`: object, schema, regex, choice or gbnf. Writes one per line: {"error": "..."}, or
//   {"accepts": "10", "alive": "10", "walks": ["aa"]}
// accepts and alive: for each text, whether it matches the grammar, and whether it is a prefix of a
// match. walks: texts made of random tokens that the masks allow; tokens are all bytes and
// `pieces`.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/grammar/grammar_masks.h"
#include "common/json/json.h"

namespace outrider::grammar {
namespace {

using Json = nlohmann::json;

constexpr int kMaxTokens = 400;  // per walk; longer ones are retried

GrammarSource::Kind KindOf(const std::string& name) {
  if (name == "schema") return GrammarSource::Kind::kJsonSchema;
  if (name == "regex") return GrammarSource::Kind::kRegex;
  if (name == "choice") return GrammarSource::Kind::kChoice;
  if (name == "gbnf") return GrammarSource::Kind::kGbnf;
  return GrammarSource::Kind::kJsonObject;
}

std::vector<std::string> Strings(const JsonValue& list) {
  std::vector<std::string> out;
  for (size_t i = 0; i < list.size(); ++i) out.push_back(list[i].text());
  return out;
}

std::shared_ptr<const TokenTable> Tokens(const std::vector<std::string>& pieces) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  texts.insert(texts.end(), pieces.begin(), pieces.end());
  const std::vector<std::string_view> bytes(texts.begin(), texts.end());
  const auto vocab = static_cast<int>(bytes.size()) + 1;
  return TokenTable::Create(bytes, std::vector<TokenId>{vocab - 1}, vocab).value();
}

// A random text, or nullopt if it became too long. Bytes of non-ASCII characters, and to a lesser
// degree all single bytes, are chosen less often than pieces, so that texts end and look
// meaningful.
std::optional<std::string> RandomText(GrammarMasks& masks, std::mt19937_64& rng,
                                      MaskScratch& scratch) {
  const TokenTable& tokens = masks.tokens();
  std::vector<MaskWord> mask(tokens.mask_words());
  GrammarState state(masks.grammar());
  std::string text;
  for (int step = 0; step < kMaxTokens; ++step) {
    if (!masks.Fill(state, scratch, mask).ok()) return std::nullopt;
    if (state.is_accepting() && rng() % 4 == 0) return text;
    std::vector<TokenId> allowed;
    std::vector<double> weights;
    for (TokenId id = 0; id + 1 < tokens.vocab(); ++id) {
      if ((mask[static_cast<size_t>(id) / kMaskBits] >> (id % kMaskBits) & 1) == 0) continue;
      const std::string_view bytes = tokens.Bytes(id);
      const bool ends = bytes.find_first_of("\"]}") != std::string_view::npos;
      allowed.push_back(id);
      weights.push_back(ends ? 8 : bytes.size() > 1 ? 4 : (bytes[0] & 0x80) != 0 ? 0.05 : 0.5);
    }
    if (allowed.empty()) {
      if (!state.is_accepting()) std::abort();  // a state that is not dead can be completed
      return text;
    }
    std::discrete_distribution<size_t> pick(weights.begin(), weights.end());
    const std::string_view token = tokens.Bytes(allowed[pick(rng)]);
    if (!state.Advance(token, scratch.stepper)) std::abort();  // the mask allowed it
    text += token;
  }
  return std::nullopt;
}

Json Answer(const JsonValue& request) {
  const auto grammar = Grammar::Compile({.kind = KindOf(request["kind"].text()),
                                         .text = request["text"].text(),
                                         .choices = Strings(request["choices"])});
  if (!grammar.ok()) return {{"error", grammar.status().message()}};
  MaskScratch scratch;
  std::string accepts, alive;
  for (const std::string& text : Strings(request["texts"])) {
    GrammarState state(*grammar);
    const bool is_alive = text.empty() || state.Advance(text, scratch.stepper);
    accepts += is_alive && state.is_accepting() ? '1' : '0';
    alive += is_alive ? '1' : '0';
  }
  GrammarMasks masks(*grammar, Tokens(Strings(request["pieces"])));
  std::mt19937_64 rng(static_cast<uint64_t>(request["seed"].Int(0).value()));
  std::vector<std::string> walks;
  const int wanted = request["walks"].Int(0).value();
  for (int tries = 0; static_cast<int>(walks.size()) < wanted && tries < 4 * wanted; ++tries) {
    if (auto text = RandomText(masks, rng, scratch)) walks.push_back(std::move(*text));
  }
  return {{"accepts", accepts}, {"alive", alive}, {"walks", walks}};
}

}  // namespace
}  // namespace outrider::grammar

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto request = outrider::ParseJsonObject(line, "the request", {.depth = 64});
    if (!request.ok()) {
      std::cerr << request.status().ToString() << "\n";
      return 1;
    }
    std::cout << outrider::grammar::Answer(*request).dump() << "\n";
  }
  return 0;
}
