// Helpers for the tests of config.json.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/model/config.h"
#include "tests/common/model/model_testing.h"

namespace outrider {

inline Result<ModelConfig> Load(const nlohmann::json& config, const std::string& generation = "") {
  const TempDirectory directory;
  directory.Write("config.json", config.dump());
  if (!generation.empty()) directory.Write("generation_config.json", generation);
  return LoadModelConfig(directory.path());
}

struct RefusedField {
  const char* field;
  nlohmann::json value;  // null: the field is removed
  const char* message;   // a part of it
};

inline void ExpectRefused(const nlohmann::json& base, const std::vector<RefusedField>& refusals,
                          Code code) {
  for (const RefusedField& refusal : refusals) {
    nlohmann::json config = base;
    if (refusal.value.is_null()) {
      config.erase(refusal.field);
    } else {
      config[refusal.field] = refusal.value;
    }
    const Result<ModelConfig> loaded = Load(config);
    const std::string what = std::string(refusal.field) + " = " + refusal.value.dump();
    ASSERT_FALSE(loaded.ok()) << what;
    EXPECT_EQ(loaded.status().code(), code) << what << ": " << loaded.status().ToString();
    EXPECT_THAT(loaded.status().message(), ::testing::AllOf(::testing::HasSubstr("config.json"),
                                                            ::testing::HasSubstr(refusal.message)))
        << what;
  }
}

}  // namespace outrider
