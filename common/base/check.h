// OUTRIDER_CHECK(condition): for conditions that only a bug can violate. Also checked in release
// builds. Prints the condition and its position, then aborts. Never for input, files or peers:
// those get a Status.
#pragma once

namespace outrider {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace outrider

#define OUTRIDER_CHECK(condition)                      \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::outrider::CheckFailed(#condition, __FILE__, __LINE__))
