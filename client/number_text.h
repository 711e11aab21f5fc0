// Formats numbers for tables.
#pragma once

#include <cstdio>
#include <string>

namespace outrider {

inline std::string NumberText(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace outrider
