// Rounds for the tests of DeviceRounds: the host's own types in, decided rounds out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "common/backend/cuda/device_rounds.h"
#include "tests/support/verify_rounds.h"

namespace outrider {

using testing::OnHost;
using testing::Random;
using testing::Rows;
using testing::Same;
using testing::TestRound;

// Verifies the rounds in one step. Their rows become what the device leaves in them. `acceptance`:
// by round and node.
inline std::vector<DecidedRound> DecideOnDevice(
    std::vector<TestRound>& sessions, int vocab, int allowed,
    std::vector<std::vector<uint8_t>>* acceptance = nullptr) {
  const Stream stream;
  DeviceRounds rounds(&stream);
  RoundBatch batch;
  std::vector<float> logits;
  for (const TestRound& s : sessions) {
    AddTo(batch, s);
    for (const std::vector<float>& row : s.rows) {
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  auto memory = CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs,
                                     logits.size() * sizeof(float), nullptr);
  EXPECT_TRUE(memory.ok());
  auto* const rows = static_cast<float*>(memory.value()->data());
  std::copy(logits.begin(), logits.end(), rows);
  rounds.Decide(batch, {rows, vocab, allowed});
  const Decisions decisions = rounds.Decided();
  EXPECT_EQ(rounds.bytes(), decisions.rounds.size_bytes() + decisions.acceptance.size_bytes());
  const float* next = rows;
  const uint8_t* byte = decisions.acceptance.data();
  for (TestRound& s : sessions) {
    for (std::vector<float>& row : s.rows) {
      std::copy(next, next + vocab, row.begin());
      next += vocab;
    }
    if (acceptance != nullptr) acceptance->emplace_back(byte, byte + s.rows.size());
    byte += s.rows.size();
  }
  return {decisions.rounds.begin(), decisions.rounds.end()};
}

}  // namespace outrider
