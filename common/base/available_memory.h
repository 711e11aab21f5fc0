// How much memory this process may still take before the kernel kills something for it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace outrider {

// In bytes: what the machine has left (including swap), or the process's control group, if that is
// less. Page cache counts as left, because the kernel can reclaim it. INT64_MAX if neither is
// known. `root`: a prefix for /proc and /sys, for tests.
int64_t AvailableMemory(const std::filesystem::path& root = "/");

}  // namespace outrider
