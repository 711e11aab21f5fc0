#pragma once

namespace outrider {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace outrider
