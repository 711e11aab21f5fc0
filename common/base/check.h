// OUTRIDER_CHECK(condition): for what only a bug can break, in release builds too. Prints the
// condition and its place, then aborts. Never for input, files or peers: those get a Status.
#pragma once

namespace outrider {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace outrider

#define OUTRIDER_CHECK(condition)                      \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::outrider::CheckFailed(#condition, __FILE__, __LINE__))
