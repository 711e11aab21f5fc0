// Numbers as messages show them.
//
// Thread: any.
#pragma once

#include <string>

namespace outrider {

// Six significant digits at most, without zeros at the end: 30, 0.25, 1e-07, nan.
std::string ShortNumber(double number);

}  // namespace outrider
