#include "common/base/short_number.h"

#include <cstdio>

namespace outrider {

std::string ShortNumber(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

}  // namespace outrider
