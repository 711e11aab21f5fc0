// Rounds for the tests of DeviceRules: the host's own types in, verdicts out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "common/backend/cuda/device_rules.h"
#include "tests/support/verify_rounds.h"

namespace outrider {

using testing::OnHost;
using testing::Random;
using testing::Rows;
using testing::Same;
using testing::TestRound;

// Verifies the sessions in one step, with `gap` rows that are nobody's in front of each. Their rows
// become what the device has left of them. `acceptance`: by session and node.
inline std::vector<DeviceVerdict> VerifyOnDevice(
    std::vector<TestRound>& sessions, int vocab, int allowed, int gap = 0,
    std::vector<std::vector<uint8_t>>* acceptance = nullptr) {
  constexpr float kUntouched = 1234.f;
  const Stream stream;
  DeviceRules rules(&stream);
  VerifyBatch batch;
  std::vector<float> logits;
  for (const TestRound& s : sessions) {
    batch.SkipRows(gap);
    AddTo(batch, s);
    logits.insert(logits.end(), static_cast<size_t>(gap * vocab), kUntouched);
    for (const std::vector<float>& row : s.rows) {
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  auto memory = CudaBuffer::Allocate(Place::kDevice, logits.size() * sizeof(float));
  EXPECT_TRUE(memory.ok());
  auto* const rows = static_cast<float*>(memory.value()->data());
  std::copy(logits.begin(), logits.end(), rows);
  rules.Verify(batch, {rows, vocab, allowed});
  const DeviceVerdicts verdicts = rules.Verdicts();
  EXPECT_EQ(rules.bytes(), verdicts.verdicts.size_bytes() + verdicts.acceptance.size_bytes());
  const float* at = rows;
  const uint8_t* byte = verdicts.acceptance.data();
  for (TestRound& s : sessions) {
    EXPECT_EQ(std::count(at, at + gap * vocab, kUntouched), gap * vocab);
    at += gap * vocab;
    for (std::vector<float>& row : s.rows) {
      std::copy(at, at + vocab, row.begin());
      at += vocab;
    }
    if (acceptance != nullptr) acceptance->emplace_back(byte, byte + s.rows.size());
    byte += s.rows.size();
  }
  return {verdicts.verdicts.begin(), verdicts.verdicts.end()};
}

}  // namespace outrider
