#include "common/model/model_directory.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ModelDirectoryTest : public ::testing::Test {
 protected:
  // A folder that can be served.
  void WriteModel(int shards = 1) {
    fs::remove_all(folder());
    ASSERT_TRUE(
        MakeCheckpoint(folder(), {.vocab_size = 300, .shards = shards, .tokenizer = true}).ok());
    ASSERT_TRUE(CheckModelDirectory(folder()).ok());
  }
  fs::path folder() const { return directory_.path() / "model"; }
  void Remove(const std::string& name) const { ASSERT_TRUE(fs::remove(folder() / name)); }
  void Write(const std::string& name, const std::string& text = "x") const {
    directory_.Write("model/" + name, text);
  }
  std::string ErrorOf(const fs::path& path) const {
    const Status status = CheckModelDirectory(path);
    EXPECT_FALSE(status.ok());
    return status.message();
  }
  std::string ErrorOf() const { return ErrorOf(folder()); }

  TempDirectory directory_;
};

TEST_F(ModelDirectoryTest, JudgesTheArchitectureFirst) {
  WriteModel();
  auto config = nlohmann::json::parse(directory_.Read("model/config.json"));
  config["architectures"] = {"GPT2LMHeadModel"};
  Write("config.json", config.dump());
  Write("tokenizer.json", "{}");  // would be rejected, too
  Remove("model.safetensors");
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr("GPT2LMHeadModel"), HasSubstr("not supported"),
                               HasSubstr("LlamaForCausalLM")));
}

TEST_F(ModelDirectoryTest, SaysWhatThePathIs) {
  WriteModel();
  EXPECT_THAT(ErrorOf("no-such-org/no-such-model"),
              AllOf(HasSubstr("hf download no-such-org/no-such-model"), HasSubstr("--local-dir")));
  EXPECT_THAT(ErrorOf("/no/such/folder"),
              ::testing::EndsWith("/no/such/folder: there is no such folder"));
  Write("small.Q4.gguf");
  EXPECT_THAT(ErrorOf(folder() / "small.Q4.gguf"),
              HasSubstr("small.Q4.gguf: ends within its header"));
  EXPECT_THAT(ErrorOf(folder() / "config.json"), HasSubstr("is a file"));
  EXPECT_THAT(ErrorOf(directory_.path()), HasSubstr("no config.json"));
}

TEST_F(ModelDirectoryTest, ErrorsListWhatWasFound) {
  using Case = std::pair<std::vector<std::string>, std::string>;  // files, message
  const std::vector<Case> without_config = {
      {{"adapter_config.json", "adapter_model.safetensors"}, "LoRA adapter of org/base"},
      {{"a.gguf", "b.gguf"}, "a.gguf: is one of several GGUF files"},
      {{"a.gguf"}, "a.gguf: ends within its header"},
      {{"params.json", "consolidated.00.pth"}, "params.json"},
      {{"snapshots"}, "folder below its snapshots/"},
      {{"readme"}, "no config.json"}};
  for (const auto& [files, words] : without_config) {
    fs::remove_all(folder());
    fs::create_directory(folder());
    for (const std::string& file : files) {
      Write(file,
            file == "adapter_config.json" ? R"({"base_model_name_or_path": "org/base"})" : "x");
    }
    EXPECT_THAT(ErrorOf(), HasSubstr(words));
  }
  const std::vector<Case> without_weights = {
      {{"pytorch_model.bin"}, "pytorch_model.bin, a Python pickle"},
      {{"pytorch_model-00001-of-00002.bin"}, "save_pretrained"},
      {{"a.gguf"}, "a.gguf: ends within its header"},
      {{"adapter_config.json"}, "LoRA"},
      {{"consolidated.safetensors"}, "only files such as consolidated.safetensors"},
      {{}, "the download is not complete"}};
  for (const auto& [files, words] : without_weights) {
    WriteModel();
    Remove("model.safetensors");
    for (const std::string& file : files) Write(file);
    EXPECT_THAT(ErrorOf(), HasSubstr(words));
  }
}

TEST_F(ModelDirectoryTest, CountsMissingShards) {
  WriteModel(/*shards=*/3);
  Remove("model-00002-of-00003.safetensors");
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr("1 of the 3 files"),
                               HasSubstr("the first of them model-00002-of-00003.safetensors")));
}

TEST_F(ModelDirectoryTest, SaysWhichTokenizerIsThere) {
  WriteModel();
  Remove("tokenizer.json");
  EXPECT_THAT(ErrorOf(), HasSubstr("no tokenizer.json; the download is not complete"));
  Write("vocab.json");
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr("the tokenizer only as vocab.json"),
                               HasSubstr("AutoTokenizer.from_pretrained")));
  Write("tokenizer.model");
  EXPECT_TRUE(CheckModelDirectory(folder()).ok());
}

}  // namespace
}  // namespace outrider
