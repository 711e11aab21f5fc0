// make_small_pair FROM TO writes a pair for tests that need any pair, cheaper than the default one.
// TO/target is the checkpoint FROM, TO/drafter the same with noise (noisy_checkpoint.h).
//   make_small_pair models/default/drafter build/cpu/tests/small_pair
#include <cstdio>
#include <filesystem>

#include "tests/support/noisy_checkpoint.h"

namespace {

constexpr float kStrength = 0.15f;  // about three of four draft tokens are accepted

outrider::Status Make(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failure;
  std::filesystem::create_directories(to, failure);
  using enum std::filesystem::copy_options;
  if (!failure) std::filesystem::copy(from, to / "target", recursive | overwrite_existing, failure);
  if (failure) return outrider::Internal(to.string() + ": " + failure.message());
  return outrider::AddNoise(from, to / "drafter", kStrength, /*seed=*/1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: make_small_pair FROM TO\n");
    return 2;
  }
  const outrider::Status status = Make(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "make_small_pair: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
