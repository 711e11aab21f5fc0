#include "common/model/config_fields.h"

#include <string>

namespace outrider {

Status ReadPositive(const JsonValue& field, double limit, float* out) {
  const Result<double> number = field.Number(0, limit);
  // The last condition rejects numbers that are positive as doubles but zero as floats.
  if (!number.ok() || *number >= limit || static_cast<float>(*number) <= 0) {
    return field.Wrong("a number above 0 and below " + std::to_string(limit));
  }
  *out = static_cast<float>(*number);
  return Status();
}

Status MustBeOff(const JsonValue& field) {
  bool on = false;
  OUTRIDER_TRY(field.Read(&on));
  return on ? field.Unsupported() : Status();
}

Status MustBe(const JsonValue& field, std::string_view text) {
  return field.is_null() || field.Is(text) ? Status() : field.Unsupported();
}

Status MustBe(const JsonValue& field, double number) {
  return field.is_null() || field.Is(number) ? Status() : field.Unsupported();
}

}  // namespace outrider
