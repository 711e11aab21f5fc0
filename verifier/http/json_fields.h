// The members of a JSON object by name and type. A member that is null counts as absent, as clients
// of OpenAI's API mean it; the first one of a wrong type is remembered and every Read does nothing
// from then on.
//
// Thread: the owner.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

// kInvalidArgument: not JSON (malformed UTF-8 included), not an object, or nested deeper or of more
// values than any request needs.
Result<nlohmann::json> ParseJsonObject(std::string_view text);

class JsonFields {
 public:
  // `object` must outlive it; `path`: put before names in errors ("speculation.").
  explicit JsonFields(const nlohmann::json& object, std::string path = "");

  // kInvalidArgument "<path><name>: ..." once something was wrong.
  const Status& status() const { return status_; }
  // The member; nullptr where it is absent or null.
  const nlohmann::json* Find(const char* name) const;
  void Refuse(const char* name, const std::string& why);

  // `out` keeps its value where the member is absent.
  void Read(const char* name, bool* out);
  void Read(const char* name, float* out);
  // Values beyond int become its limits: too large or too small for any field's check.
  void Read(const char* name, int* out);
  void Read(const char* name, std::optional<int>* out);
  // Negative ones as their two's complement: OpenAI's seeds are signed.
  void Read(const char* name, std::optional<uint64_t>* out);
  void Read(const char* name, std::string* out);
  void ReadInts(const char* name, std::vector<int>* out);
  // One string, or an array of them.
  void ReadStrings(const char* name, std::vector<std::string>* out);
  // An object from token ids, as strings, to numbers.
  void ReadBias(const char* name, std::vector<std::pair<TokenId, float>>* out);

 private:
  // The member if it is there and nothing was wrong so far.
  const nlohmann::json* Next(const char* name) const;
  void RefuseType(const char* name, const nlohmann::json& value, const char* wanted);

  const nlohmann::json& object_;
  const std::string path_;
  Status status_;
};

// An integer as int, its limits for what is beyond; nullopt for another type.
std::optional<int> ToBoundedInt(const nlohmann::json& value);

}  // namespace outrider
