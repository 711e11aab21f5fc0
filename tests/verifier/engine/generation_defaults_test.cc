#include "verifier/engine/generation_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GenerationDefaultsTest : public ::testing::Test {
 protected:
  Result<GenerationDefaults> Load(const std::string& json) const {
    std::ofstream(folder_ / "generation_config.json") << json;
    ::testing::internal::CaptureStderr();
    Result<GenerationDefaults> loaded = LoadGenerationDefaults(folder_);
    log_ = ::testing::internal::GetCapturedStderr();
    return loaded;
  }

  const testing::TempDir dir_;
  const std::filesystem::path folder_ = dir_.path();
  mutable std::string log_;
};

TEST_F(GenerationDefaultsTest, AreReadFromFileAndLogged) {
  const auto none = LoadGenerationDefaults(folder_);
  ASSERT_TRUE(none.ok()) << "no file";
  EXPECT_EQ(none->sampling, SamplingParams());

  const auto all = Load(R"({"bos_token_id": 1, "eos_token_id": [2, 3], "do_sample": true,
      "temperature": 0.6, "top_p": 0.9, "top_k": 50, "min_p": 0.05, "repetition_penalty": 1.1,
      "max_new_tokens": 512, "no_repeat_ngram_size": 3, "typical_p": null,
      "transformers_version": "4.40.0"})");
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_EQ(all->sampling, (SamplingParams{.temperature = 0.6f,
                                           .top_k = 50,
                                           .top_p = 0.9f,
                                           .min_p = 0.05f,
                                           .repetition_penalty = 1.1f}));
  EXPECT_EQ(all->max_tokens, 512);
  EXPECT_THAT(log_, AllOf(HasSubstr("temperature=0.6"), HasSubstr("max_new_tokens=512"),
                          HasSubstr("ignored=no_repeat_ngram_size")));

  // do_sample is ignored: a checkpoint that omits it is not greedy.
  EXPECT_EQ(Load(R"({"do_sample": false})")->sampling, SamplingParams());
  EXPECT_EQ(Load(R"({"top_k": -1, "temperature": null})")->sampling, SamplingParams());
  EXPECT_TRUE(Load(R"({"temperature": 0})")->sampling.greedy());
}

TEST_F(GenerationDefaultsTest, RefusesValuesOutOfRange) {
  for (const char* bad :
       {R"({"temperature": -1})", R"({"temperature": "warm"})", R"({"temperature": 1e300})",
        R"({"top_p": 0})", R"({"top_p": 1.5})", R"({"min_p": 2})", R"({"top_k": 1.5})",
        R"({"top_k": -2})", R"({"top_k": 5000000000})", R"({"top_k": 18446744073709551615})",
        R"({"repetition_penalty": 0})", R"({"max_new_tokens": 0})"}) {
    const Status status = Load(bad).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    const std::string field = std::string(bad).substr(2, std::string(bad).find(':') - 3);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("generation_config.json"), HasSubstr(field),
                                        HasSubstr("--generation-config none")));
  }
  EXPECT_FALSE(Load("[]").ok());
}

TEST(GenerationDefaults, DefaultPairSetsOnlyTemperature) {
  SamplingParams expected;
  expected.temperature = 0.8f;
  for (const char* name : {"target", "drafter"}) {
    const auto defaults =
        LoadGenerationDefaults(std::string(OUTRIDER_SOURCE_DIR) + "/models/default/" + name);
    ASSERT_TRUE(defaults.ok());
    EXPECT_EQ(defaults->sampling, expected);
    EXPECT_FALSE(defaults->max_tokens.has_value());
  }
}

}  // namespace
}  // namespace outrider
