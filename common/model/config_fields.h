// The fields of one JSON object of config.json, with errors that name the file, the field and its
// value. A null counts as absent, as in Transformers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/base/status.h"

namespace outrider {

constexpr int kMaxPositions = 1 << 24;  // of a context or a window: generous for any model

class ConfigFields {
 public:
  // `where` begins the messages. `object` must outlive this.
  ConfigFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  // Whether the field is there, be it null.
  bool Has(const char* name) const;
  // nullptr: absent.
  const nlohmann::json* Find(const char* name) const;
  const std::string& where() const { return where_; }

  // kInvalidArgument and kUnimplemented about a field.
  Status Bad(const char* name, const std::string& why) const;
  Status Unsupported(const char* name, const nlohmann::json& value) const;

  // An integer of `low` to `high`.
  Status Integer(const char* name, int64_t low, int64_t high, int* out) const;
  Status Integer(const char* name, int64_t low, int64_t high, int fallback, int* out) const;
  Status CheckInteger(const char* name, const nlohmann::json& value, int64_t low, int64_t high,
                      int* out) const;
  // A number above 0 and below `limit`.
  Status Positive(const char* name, double limit, float* out) const;
  Status Boolean(const char* name, bool fallback, bool* out) const;
  // Refuses an option that is switched on.
  Status MustBeOff(const char* name) const;
  // Refuses any other text or number; absent is allowed.
  Status MustBe(const char* name, const nlohmann::json& value) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace outrider
