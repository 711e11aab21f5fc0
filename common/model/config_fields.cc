#include "common/model/config_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/printable.h"

namespace outrider {

using Json = nlohmann::json;

bool ConfigFields::Has(const char* name) const { return object_.contains(name); }

const Json* ConfigFields::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Status ConfigFields::Bad(const char* name, const std::string& why) const {
  return InvalidArgument(where_ + ": " + name + " " + why);
}

Status ConfigFields::Unsupported(const char* name, const Json& value) const {
  // dump() cannot throw here: the parser has refused strings that are not UTF-8.
  return Unimplemented(where_ + ": " + name + " " + Printable(value.dump()) + " is not supported");
}

Status ConfigFields::Integer(const char* name, int64_t low, int64_t high, int* out) const {
  const Json* value = Find(name);
  if (value == nullptr) return Bad(name, "is missing");
  return CheckInteger(name, *value, low, high, out);
}

Status ConfigFields::Integer(const char* name, int64_t low, int64_t high, int fallback,
                             int* out) const {
  *out = fallback;
  const Json* value = Find(name);
  return value == nullptr ? Status() : CheckInteger(name, *value, low, high, out);
}

Status ConfigFields::CheckInteger(const char* name, const Json& value, int64_t low, int64_t high,
                                  int* out) const {
  const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || huge || value.get<int64_t>() < low ||
      value.get<int64_t>() > high) {
    return Bad(name, "is " + Printable(value.dump()) + ", not an integer of " +
                         std::to_string(low) + " to " + std::to_string(high));
  }
  *out = static_cast<int>(value.get<int64_t>());
  return Status();
}

Status ConfigFields::Positive(const char* name, double limit, float* out) const {
  const Json* value = Find(name);
  if (value == nullptr) return Bad(name, "is missing");
  const double number = value->is_number() ? value->get<double>() : NAN;
  // The last test refuses what is positive as a double and zero as a float.
  if (!(number > 0 && number < limit) || static_cast<float>(number) <= 0) {
    return Bad(name, "is " + Printable(value->dump()) + ", not a number above 0 and below " +
                         std::to_string(limit));
  }
  *out = static_cast<float>(number);
  return Status();
}

Status ConfigFields::Boolean(const char* name, bool fallback, bool* out) const {
  *out = fallback;
  const Json* value = Find(name);
  if (value == nullptr) return Status();
  if (!value->is_boolean()) return Bad(name, "is not true or false");
  *out = value->get<bool>();
  return Status();
}

Status ConfigFields::MustBeOff(const char* name) const {
  bool on = false;
  OUTRIDER_TRY(Boolean(name, false, &on));
  return on ? Unsupported(name, *Find(name)) : Status();
}

Status ConfigFields::MustBe(const char* name, const Json& value) const {
  const Json* found = Find(name);
  return found == nullptr || *found == value ? Status() : Unsupported(name, *found);
}

}  // namespace outrider
