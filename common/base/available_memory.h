// How much memory this process may still take before something is killed for it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace outrider {

// In bytes: what the machine has left (swap included), or what the process's control group has, if
// that is less. Page cache counts as left, as the kernel gives it up. INT64_MAX where neither is
// known. `root`: in front of /proc and /sys, for tests.
int64_t AvailableMemory(const std::filesystem::path& root = "/");

}  // namespace outrider
