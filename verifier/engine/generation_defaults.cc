#include "verifier/engine/generation_defaults.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/model/json_file.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxMebibytes = 4;

// Known, and of no say in how a request samples: tokens (config.h reads those), bookkeeping, and
// what greedy or sampled decoding of one sequence does not look at.
const std::set<std::string, std::less<>> kHarmless = {
    "bos_token_id",  "eos_token_id",           "pad_token_id",       "decoder_start_token_id",
    "use_cache",     "transformers_version",   "_from_model_config", "do_sample",
    "max_length",    "early_stopping",         "length_penalty",     "cache_implementation",
    "output_scores", "return_dict_in_generate"};

// The fields of the file that are taken, each read once.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  Status Read(const char* name, float* out) {
    const Json* value = Take(name);
    if (value == nullptr) return Status();
    const double number = value->is_number() ? value->get<double>() : NAN;
    if (!(std::fabs(number) <= std::numeric_limits<float>::max())) {
      return Refuse(name, *value, "a number");
    }
    *out = static_cast<float>(number);
    return Status();
  }
  Status Read(const char* name, int least, int* out) {
    const Json* value = Take(name);
    if (value == nullptr) return Status();
    constexpr int kMost = std::numeric_limits<int>::max();
    const bool fits = value->is_number_unsigned()
                          ? value->get<uint64_t>() <= uint64_t{kMost}
                          : value->is_number_integer() && value->get<int64_t>() >= least;
    if (!fits || value->get<int64_t>() < least) {
      return Refuse(name, *value, "an integer of at least " + std::to_string(least));
    }
    *out = value->get<int>();
    return Status();
  }

  // "temperature=0.6 top_p=0.9", as the file has them.
  std::string Taken() const {
    std::string taken;
    for (const std::string& name : taken_) {
      taken += (taken.empty() ? "" : " ") + name + "=" + object_.at(name).dump();
    }
    return taken;
  }
  // Names that are neither taken nor harmless.
  std::string Ignored() const {
    std::string ignored;
    for (const auto& [name, value] : object_.items()) {
      if (value.is_null() || taken_.contains(name) || kHarmless.contains(name)) continue;
      ignored += (ignored.empty() ? "" : " ") + Printable(name);
    }
    return Printable(ignored);
  }

 private:
  const Json* Take(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end() || found->is_null()) return nullptr;
    taken_.insert(name);
    return &*found;
  }
  static Status Refuse(const char* name, const Json& value, const std::string& wanted) {
    return InvalidArgument(std::string(name) + " is " + Printable(value.dump()) + ", must be " +
                           wanted);
  }

  const Json& object_;
  std::set<std::string> taken_;
};

Status Fill(Reader& reader, GenerationDefaults* defaults) {
  SamplingParams& sampling = defaults->sampling;
  OUTRIDER_TRY(reader.Read("temperature", &sampling.temperature));
  OUTRIDER_TRY(reader.Read("top_p", &sampling.top_p));
  OUTRIDER_TRY(reader.Read("min_p", &sampling.min_p));
  OUTRIDER_TRY(reader.Read("repetition_penalty", &sampling.repetition_penalty));
  OUTRIDER_TRY(reader.Read("top_k", -1, &sampling.top_k));
  if (sampling.top_k == -1) sampling.top_k = 0;  // vLLM's way to switch it off
  int max_new_tokens = 0;
  OUTRIDER_TRY(reader.Read("max_new_tokens", 1, &max_new_tokens));
  if (max_new_tokens > 0) defaults->max_tokens = max_new_tokens;
  return Validate(sampling, /*vocab_size=*/1);  // there is no bias to look up
}

}  // namespace

Result<GenerationDefaults> LoadGenerationDefaults(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "generation_config.json";
  Result<Json> json = ReadJsonObject(path, kMaxMebibytes);
  if (json.status().code() == Code::kNotFound) return GenerationDefaults();
  if (!json.ok()) return json.status();
  Reader reader(*json);
  GenerationDefaults defaults;
  if (const Status wrong = Fill(reader, &defaults); !wrong.ok()) {
    return InvalidArgument(path.string() + ": " + wrong.message() +
                           "; correct it, or start with --generation-config none");
  }
  Log(LogLevel::kInfo, "defaults of requests, from generation_config.json",
      {{"taken", reader.Taken()}, {"ignored", reader.Ignored()}});
  return defaults;
}

}  // namespace outrider
