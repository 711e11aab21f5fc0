#include "common/model/model_directory.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/printable.h"
#include "common/gguf/gguf_file.h"
#include "common/json/json.h"
#include "common/model/config.h"
#include "common/model/safetensors.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

constexpr char kWanted[] =
    "give the folder of a model in Hugging Face's format: config.json, *.safetensors, "
    "tokenizer.json; or a GGUF file";

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The alphabetically first file in the folder whose name has this ending; "" if there is none.
std::string FirstWith(const fs::path& folder, const std::string& ending) {
  std::string first;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending) && (first.empty() || name < first)) first = name;
  }
  return first;
}

// "org/name" as on the Hub; a path that someone would write is unlikely to look like it.
bool LooksLikeHubName(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return false;
  if (text.find('/', slash + 1) != std::string::npos || text.front() == '.') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '/';
  });
}

Status Missing(const fs::path& path) {
  const std::string text = path.string();
  if (!LooksLikeHubName(text)) return NotFound(Printable(text) + ": there is no such folder");
  return NotFound(text +
                  ": there is no such folder. If it is the name of a model on the Hugging Face "
                  "Hub, fetch it first, as nothing is downloaded here: hf download " +
                  text + " --local-dir DIR, then give DIR");
}

// The error for a folder with several GGUF files.
Status SeveralGguf(const fs::path& first) {
  return InvalidArgument(first.string() +
                         ": is one of several GGUF files of its folder; give the file itself");
}

// Reads the header and the names and types of tensors; their values are checked on loading.
Status CheckGguf(const fs::path& path) {
  OUTRIDER_TRY(LoadModelConfig(path).status());
  return Checkpoint::Open(path).status();
}

Status Adapter(const fs::path& folder) {
  std::string base;
  const auto json = ReadJsonObject(folder / "adapter_config.json", {.bytes = 4 << 20});
  if (json.ok()) {
    const JsonValue name = (*json)["base_model_name_or_path"];
    if (name.is_string()) base = " of " + Printable(name.text());
  }
  return Unimplemented(
      folder.string() + ": holds a LoRA adapter" + base +
      " (adapter_config.json), not a model; merge the two (peft's "
      "merge_and_unload, then save_pretrained) and give the merged model's folder");
}

// Describes a folder without config.json.
Status NoConfig(const fs::path& folder) {
  if (Exists(folder / "adapter_config.json")) return Adapter(folder);
  if (const std::string gguf = FirstWith(folder, ".gguf"); !gguf.empty()) {
    return SeveralGguf(folder / gguf);
  }
  if (Exists(folder / "snapshots")) {
    return NotFound(folder.string() +
                    ": is the Hub's cache of a model; give the folder below its snapshots/");
  }
  if (Exists(folder / "params.json")) {
    return Unimplemented(folder.string() +
                         ": has params.json, the publisher's own format; fetch the model's "
                         "version for transformers, with config.json");
  }
  return NotFound(folder.string() + ": no config.json; " + kWanted);
}

// Describes a folder without safetensors of the usual names.
Status NoWeights(const fs::path& folder) {
  if (Exists(folder / "adapter_config.json")) return Adapter(folder);
  for (const char* ending : {".bin", ".pt", ".pth"}) {
    const std::string pickled = FirstWith(folder, ending);
    if (pickled.empty()) continue;
    return Unimplemented(
        folder.string() + ": weights only as " + Printable(pickled) +
        ", a Python pickle, which can run code and is not read here; write safetensors with "
        "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW, safe_serialization=True)");
  }
  if (const std::string gguf = FirstWith(folder, ".gguf"); !gguf.empty()) {
    return SeveralGguf(folder / gguf);
  }
  const std::string other = FirstWith(folder, ".safetensors");
  return NotFound(folder.string() + ": no model.safetensors and no model.safetensors.index.json" +
                  (other.empty() ? "; the download is not complete"
                                 : ", only files such as " + Printable(other)));
}

Status NoTokenizer(const fs::path& folder) {
  std::string found;
  for (const char* name : {"tekken.json", "vocab.json", "vocab.txt"}) {
    if (found.empty() && Exists(folder / name)) found = name;
  }
  if (found.empty()) {
    return NotFound(folder.string() + ": no tokenizer.json; the download is not complete");
  }
  return Unimplemented(folder.string() + ": the tokenizer only as " + found +
                       ", not as tokenizer.json; write that with "
                       "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)");
}

}  // namespace

Status CheckModelDirectory(const fs::path& path) {
  std::error_code ignored;
  if (!Exists(path)) return Missing(path);
  if (const auto gguf = FindGgufModel(path); gguf.has_value()) return CheckGguf(*gguf);
  if (!fs::is_directory(path, ignored)) {
    return InvalidArgument(path.string() + ": is a file; " + kWanted);
  }
  if (!Exists(path / "config.json")) return NoConfig(path);
  OUTRIDER_TRY(LoadModelConfig(path).status());
  if (!Exists(path / "model.safetensors") && !Exists(path / "model.safetensors.index.json")) {
    return NoWeights(path);
  }
  OUTRIDER_TRY(Checkpoint::Open(path).status());
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (Exists(path / name)) return Status();
  }
  return NoTokenizer(path);
}

}  // namespace outrider
