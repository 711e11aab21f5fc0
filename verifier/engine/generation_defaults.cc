#include "verifier/engine/generation_defaults.h"

#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/gguf/gguf_file.h"
#include "common/json/json.h"

namespace outrider {
namespace {

constexpr size_t kMaxBytes = 4 << 20;

const std::set<std::string, std::less<>> kTaken = {"temperature",        "top_p", "min_p",
                                                   "repetition_penalty", "top_k", "max_new_tokens"};
// Known fields that do not affect sampling: tokens (config.h reads those), bookkeeping, and fields
// that neither greedy nor sampled decoding of one sequence uses.
const std::set<std::string, std::less<>> kHarmless = {
    "bos_token_id",  "eos_token_id",           "pad_token_id",       "decoder_start_token_id",
    "use_cache",     "transformers_version",   "_from_model_config", "do_sample",
    "max_length",    "early_stopping",         "length_penalty",     "cache_implementation",
    "output_scores", "return_dict_in_generate"};

Status Fill(const JsonValue& json, GenerationDefaults* defaults) {
  constexpr int kMax = std::numeric_limits<int>::max();
  SamplingParams& sampling = defaults->sampling;
  OUTRIDER_TRY(json["temperature"].Read(&sampling.temperature));
  OUTRIDER_TRY(json["top_p"].Read(&sampling.top_p));
  OUTRIDER_TRY(json["min_p"].Read(&sampling.min_p));
  OUTRIDER_TRY(json["repetition_penalty"].Read(&sampling.repetition_penalty));
  OUTRIDER_TRY(json["top_k"].Read(&sampling.top_k, -1, kMax));
  if (sampling.top_k == -1) sampling.top_k = 0;  // how vLLM disables it
  int max_new_tokens = 0;
  OUTRIDER_TRY(json["max_new_tokens"].Read(&max_new_tokens, 1, kMax));
  if (max_new_tokens > 0) defaults->max_tokens = max_new_tokens;
  return Status();
}

// Reads "general.sampling.*" of a GGUF file. `taken` and `ignored` become lists for the log.
Status FillFromGguf(const GgufFile& file, GenerationDefaults* defaults, std::string* taken,
                    std::string* ignored) {
  SamplingParams& sampling = defaults->sampling;
  const std::map<std::string, float*, std::less<>> numbers = {
      {"temp", &sampling.temperature},
      {"top_p", &sampling.top_p},
      {"min_p", &sampling.min_p},
      {"penalty_repeat", &sampling.repetition_penalty}};
  constexpr std::string_view kPrefix = "general.sampling.";
  for (auto pair = file.metadata().lower_bound(kPrefix);
       pair != file.metadata().end() && pair->first.starts_with(kPrefix); ++pair) {
    const std::string& key = pair->first;
    const std::string name = key.substr(kPrefix.size());
    const auto number = numbers.find(name);
    if (number != numbers.end()) {
      OUTRIDER_ASSIGN(const double value, file.Number(key));
      *number->second = static_cast<float>(value);
    } else if (name == "top_k") {
      OUTRIDER_ASSIGN(const int64_t value, file.Int(key, -1, std::numeric_limits<int>::max()));
      sampling.top_k = value == -1 ? 0 : static_cast<int>(value);
    } else {
      *ignored += (ignored->empty() ? "" : " ") + Printable(name);
      continue;
    }
    *taken += (taken->empty() ? "" : " ") + name;
  }
  return Status();
}

Result<GenerationDefaults> LoadFromGguf(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(const GgufFile file, GgufFile::Open(path));
  GenerationDefaults defaults;
  std::string taken, ignored;
  Status wrong = FillFromGguf(file, &defaults, &taken, &ignored);
  if (wrong.ok()) {
    wrong = Validate(defaults.sampling, /*vocab_size=*/1).Annotate(path.string());
  }
  if (!wrong.ok()) {
    return InvalidArgument(wrong.message() + "; start with --generation-config none");
  }
  Log(LogLevel::kInfo, "defaults of requests, from general.sampling of the GGUF file",
      {{"taken", taken}, {"ignored", Printable(ignored)}});
  return defaults;
}

// Logs what is taken, "temperature=0.6 top_p=0.9" as the file has it, and the names that are
// neither taken nor harmless.
void LogUse(const JsonValue& json) {
  std::string taken, ignored;
  (void)json.ForEachMember([&](const std::string& name, const JsonValue& value) {
    if (value.is_null() || kHarmless.contains(name)) return Status();
    if (kTaken.contains(name)) {
      taken += (taken.empty() ? "" : " ") + name + "=" + value.Shown();
    } else {
      ignored += (ignored.empty() ? "" : " ") + Printable(name);
    }
    return Status();
  });
  Log(LogLevel::kInfo, "defaults of requests, from generation_config.json",
      {{"taken", taken}, {"ignored", Printable(ignored)}});
}

}  // namespace

Result<GenerationDefaults> LoadGenerationDefaults(const std::filesystem::path& model_dir) {
  if (const auto gguf = FindGgufModel(model_dir); gguf.has_value()) return LoadFromGguf(*gguf);
  const std::filesystem::path path = model_dir / "generation_config.json";
  const Result<JsonValue> json = ReadJsonObject(path, {.bytes = kMaxBytes});
  if (json.status().code() == Code::kNotFound) return GenerationDefaults();
  if (!json.ok()) return json.status();
  GenerationDefaults defaults;
  Status wrong = Fill(*json, &defaults);
  if (wrong.ok()) {  // there is no bias that would need a vocabulary
    wrong = Validate(defaults.sampling, /*vocab_size=*/1).Annotate(path.string());
  }
  if (!wrong.ok()) {
    return InvalidArgument(wrong.message() +
                           "; correct it, or start with --generation-config none");
  }
  LogUse(*json);
  return defaults;
}

}  // namespace outrider
