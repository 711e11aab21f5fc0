// The cost of a grammar: compiling it, and the mask of one node of a draft tree.
//
// BM_Compile: a schema of 50 fields; nested objects, lists, enums, bounds and formats among them.
//
// BM_Mask: masks at every token of random texts for a grammar, with 131,072 tokens. median_us,
// p90_us and max_us are for masks after every node has been visited; cold_us and cold_max_us are
// the mean and the maximum before, and slow_masks is the number of those that took more than 2 ms.
// allowed: tokens in the median mask. forced: the fraction of masks with one token.
//
// BM_Advance: reading one token.
//
// The vocabulary consists of words, numbers, punctuation and characters in about the proportions of
// a byte-level BPE. Run on one core: taskset -c 0 grammar_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/grammar/grammar.h"
#include "common/grammar/grammar_masks.h"
#include "common/text/utf8.h"
#include "tests/bench/bench_support.h"

namespace outrider::grammar {
namespace {

constexpr size_t kVocab = 131'072;
constexpr int kTexts = 8;
constexpr int kMaxTokens = 300;  // per text

std::string Word(std::mt19937_64& rng) {
  static constexpr const char* kSyllables[] = {
      "a",   "be", "con", "der", "e",  "fi", "gra",  "hu", "in",  "ka",  "lo",  "mi",
      "ner", "o",  "pre", "qui", "re", "s",  "tion", "u",  "ver", "wor", "ing", "est"};
  std::string out;
  for (uint64_t left = 1 + rng() % 4; left > 0; --left) out += kSyllables[rng() % 24];
  return out;
}

std::string RandomToken(std::mt19937_64& rng) {
  const uint64_t kind = rng() % 100;
  std::string out;
  if (kind < 75) {
    out = Word(rng);
    if (rng() % 5 == 0) out[0] = static_cast<char>(out[0] - 'a' + 'A');
    return rng() % 2 == 0 ? " " + out : out;
  }
  if (kind < 85) {
    static constexpr std::string_view kMarks = "\"\"\"{}[]:,.;()<>=/\\-_' \n\t";
    for (uint64_t left = 2 + rng() % 3; left > 0; --left) out += kMarks[rng() % kMarks.size()];
    return out;
  }
  const char32_t block = kind < 93 ? 0x4E00 : 0x430;
  for (uint64_t left = 1 + rng() % 3; left > 0; --left) {
    AppendUtf8(block + static_cast<char32_t>(rng() % (kind < 93 ? 5000 : 32)), out);
  }
  return out;
}

std::shared_ptr<const TokenTable> Vocabulary() {
  std::mt19937_64 rng(1);
  std::set<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.insert(std::string(1, static_cast<char>(byte)));
  for (int number = 0; number < 1000; ++number) texts.insert(std::to_string(number));
  for (const char* text : {"\",", "\":", "{\"", "\"}", "\"]", "\", \"", "\": \"", "},", "}}", "]}",
                           "true", "false", "null"}) {
    texts.insert(text);
  }
  while (texts.size() < kVocab - 1) texts.insert(RandomToken(rng));
  std::vector<std::string_view> bytes(texts.begin(), texts.end());
  std::shuffle(bytes.begin(), bytes.end(), rng);
  return TokenTable::Create(bytes, std::vector<TokenId>{kVocab - 1}, kVocab).value();
}

std::string SchemaOf50Fields() {
  static constexpr const char* kTypes[] = {
      R"({"type":"string"})",
      R"({"type":"integer","minimum":0,"maximum":100000})",
      R"({"type":["number","null"]})",
      R"({"type":"string","enum":["open","closed","waiting for an answer","unknown"]})",
      R"({"type":"array","items":{"type":"string"},"maxItems":20})",
      R"({"type":"boolean"})",
      R"({"type":"string","maxLength":200})",
      R"({"type":"object","properties":{"street":{"type":"string"},"number":{"type":"integer"},"city":{"type":"string"}},"required":["street","number","city"],"additionalProperties":false})",
      R"({"type":"string","format":"date-time"})",
      R"({"anyOf":[{"type":"array","items":{"type":"integer"}},{"$ref":"#/$defs/note"}]})"};
  std::string fields, required;
  for (int i = 0; i < 50; ++i) {
    const std::string name = "\"" + std::string(i % 3 == 0 ? "customer_" : "order_") + "field_" +
                             std::to_string(i) + "\"";
    fields += (i == 0 ? "" : ",") + name + ":" + kTypes[i % 10];
    if (i % 4 != 0) required += (required.empty() ? "" : ",") + name;
  }
  return R"({"type":"object","properties":{)" + fields + R"(},"required":[)" + required +
         R"(],"additionalProperties":false,"$defs":{"note":{"type":"object","properties":{"text":{"type":"string"},"more":{"anyOf":[{"$ref":"#/$defs/note"},{"type":"null"}]}},"required":["text","more"],"additionalProperties":false}}})";
}

GrammarSource Source(int64_t index) {
  switch (index) {
    case 0:
      return {.kind = GrammarSource::Kind::kJsonSchema, .text = SchemaOf50Fields(), .choices = {}};
    case 1: return {};
    case 2:
      return {.kind = GrammarSource::Kind::kRegex,
              .text = "(?:[A-Z][a-z]{1,15} ){3,40}[0-9]{4}-[0-9]{2}",
              .choices = {}};
    case 4:
      return {.kind = GrammarSource::Kind::kJsonSchema,
              .text = R"({"type":"string","minLength":20,"maxLength":60})",
              .choices = {}};
    case 5:  // as in tool_grammar.h for strict tools under auto
      return {.kind = GrammarSource::Kind::kGbnf,
              .text =
                  "root ::= [^<]* (\"<\" a)?\na ::= \"t\" b | \"<\" a | [^<t] root | \"\"\n"
                  "b ::= \">\" call root | \"<\" a | [^<>] root | \"\"\n"
                  "call ::= \"{\\\"name\\\": \\\"\" [a-z]+ \"\\\"}\"",
              .choices = {}};
    default:
      return {.kind = GrammarSource::Kind::kGbnf,
              .text =
                  "root ::= s (\"\\n\" s)*\ns ::= id \" = \" e\ne ::= t ([-+*/] t)*\n"
                  "t ::= id | num | \"(\" e \")\"\nid ::= [a-z]+\nnum ::= [0-9]+",
              .choices = {}};
  }
}

constexpr const char* kNames[] = {"schema of 50 fields", "json_object",    "regex", "gbnf",
                                  "string of 20 to 60",  "text with calls"};

void BM_Compile(benchmark::State& state) {
  const GrammarSource source = Source(state.range(0));
  size_t nodes = 0;
  for (auto _ : state) {
    const auto grammar = Grammar::Compile(source).value();
    nodes = grammar->automaton().num_nodes();
  }
  state.counters["states"] = static_cast<double>(nodes);
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(BM_Compile)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

// States at every token of random texts. Tokens that end something are chosen more often, so that
// the texts cover the whole grammar.
std::vector<GrammarState> States(GrammarMasks& masks, MaskScratch& scratch,
                                 std::vector<double>& cold_us) {
  std::mt19937_64 rng(3);
  std::vector<GrammarState> out;
  std::vector<MaskWord> mask(masks.tokens().mask_words());
  for (int text = 0; text < kTexts; ++text) {
    GrammarState state(masks.grammar());
    for (int step = 0; step < kMaxTokens; ++step) {
      out.push_back(state);
      const double begin = CpuSeconds();
      const int count = masks.Fill(state, scratch, mask).value();
      cold_us.push_back(1e6 * (CpuSeconds() - begin));
      std::vector<TokenId> allowed, ends;
      for (TokenId id = 0; id < masks.tokens().vocab(); ++id) {
        if ((mask[static_cast<size_t>(id) / kMaskBits] >> (id % kMaskBits) & 1) == 0) continue;
        const std::string_view bytes = masks.tokens().Bytes(id);
        (bytes.find_first_of("\"]}\n") == bytes.npos ? allowed : ends).push_back(id);
      }
      if (allowed.empty() || (!ends.empty() && rng() % 4 == 0)) allowed = ends;
      const std::string_view bytes = masks.tokens().Bytes(allowed[rng() % allowed.size()]);
      if (count == 0 || bytes.empty() || !state.Advance(bytes, scratch.stepper)) break;
    }
  }
  return out;
}

void BM_Mask(benchmark::State& state) {
  static const auto tokens = Vocabulary();
  GrammarMasks masks(Grammar::Compile(Source(state.range(0))).value(), tokens);
  MaskScratch scratch;
  std::vector<double> cold;
  const std::vector<GrammarState> states = States(masks, scratch, cold);
  std::vector<MaskWord> mask(tokens->mask_words());
  std::vector<double> times;
  std::vector<int> counts;
  for (auto _ : state) {
    for (const GrammarState& each : states) {
      const double begin = CpuSeconds();
      counts.push_back(masks.Fill(each, scratch, mask).value());
      times.push_back(1e6 * (CpuSeconds() - begin));
    }
  }
  state.counters["forced"] = static_cast<double>(std::count(counts.begin(), counts.end(), 1)) /
                             static_cast<double>(counts.size());
  std::sort(times.begin(), times.end());
  std::sort(counts.begin(), counts.end());
  state.counters["median_us"] = times[times.size() / 2];
  state.counters["p90_us"] = times[times.size() * 9 / 10];
  state.counters["max_us"] = times.back();
  state.counters["cold_us"] =
      std::accumulate(cold.begin(), cold.end(), 0.0) / static_cast<double>(cold.size());
  state.counters["cold_max_us"] = *std::max_element(cold.begin(), cold.end());
  state.counters["slow_masks"] = static_cast<double>(
      std::count_if(cold.begin(), cold.end(), [](double us) { return us > 2000; }));
  state.counters["allowed"] = counts[counts.size() / 2];
  state.counters["masks"] = static_cast<double>(states.size());
  state.counters["cache_MB"] = static_cast<double>(masks.cached_bytes()) * 1e-6;
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(BM_Mask)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);

void BM_Advance(benchmark::State& state) {
  const auto grammar = Grammar::Compile(Source(1)).value();
  Stepper stepper;
  GrammarState before(grammar);
  before.Advance(R"({"a":[[{"b":")", stepper);
  for (auto _ : state) {
    GrammarState after = before;
    benchmark::DoNotOptimize(after.Advance("word\",", stepper));
  }
}
BENCHMARK(BM_Advance);

}  // namespace
}  // namespace outrider::grammar

BENCHMARK_MAIN();
