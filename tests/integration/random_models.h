// Random models with tokenizers, for tests that need any target and any drafter.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/support/checkpoint_maker.h"

namespace outrider::testing {

// Writes a model, whose tokenizer fills `vocab_size` by default, and returns `path`. Fails the test
// (ADD_FAILURE) if it cannot be written.
inline std::string MakeRandomModel(const std::string& path,
                                   CheckpointOptions options = {.vocab_size = 300}) {
  options.tokenizer = true;
  const Status status = MakeCheckpoint(path, options);
  if (!status.ok()) ADD_FAILURE() << status.ToString();
  return path;
}

// A drafter for the model of the same options: it often agrees with it.
inline std::string MakeRandomDrafter(const std::string& path,
                                     CheckpointOptions options = {.vocab_size = 300}) {
  options.noise = 0.3;
  return MakeRandomModel(path, options);
}

}  // namespace outrider::testing
