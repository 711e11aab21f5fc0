// The members of a JSON object by name and type. A member that is null counts as absent, as clients
// of OpenAI's API mean it. The first member of a wrong type or size is remembered, and every Read
// does nothing from then on.
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

// Reads a body in time linear in its size, and stops at the first value beyond a limit, so that no
// body of the front's 8 MiB takes more than 96 MiB of memory. kInvalidArgument: not JSON
// (malformed UTF-8 included), not an object, an object that names a member twice, or nested deeper
// or of more values than any request needs.
Result<nlohmann::json> ParseJsonObject(std::string_view text);

// Bytes of a client's text in an error message.
inline constexpr size_t kMaxShown = 64;
// A value as an error message shows it: numbers, booleans and the first bytes of strings as JSON,
// else the type ("an array").
std::string Shown(const nlohmann::json& value);

class JsonFields {
 public:
  // `object` must outlive it; `path`: put before names in errors ("speculation.").
  explicit JsonFields(const nlohmann::json& object, std::string path = "");

  // kInvalidArgument "<path><name> is ..." or "<path><name>: ..." once something was wrong.
  const Status& status() const { return status_; }
  // The member; nullptr where it is absent or null.
  const nlohmann::json* Find(const char* name) const;
  void Refuse(const char* name, const std::string& why);

  // `out` keeps its value where the member is absent.
  void Read(const char* name, bool* out);
  void Read(const char* name, float* out);
  void Read(const char* name, int* out);
  void Read(const char* name, std::optional<int>* out);
  // Negative ones as their two's complement: OpenAI's seeds are signed.
  void Read(const char* name, std::optional<uint64_t>* out);
  void Read(const char* name, std::string* out);
  // An array of at most `max_items`.
  void ReadInts(const char* name, int max_items, std::vector<int>* out);
  // One string, or an array of at most `max_items`.
  void ReadStrings(const char* name, int max_items, std::vector<std::string>* out);
  // An object from token ids to numbers, with at most `max_items`. An id is written in one way
  // ("5", not "05"), so that no two members mean one token.
  void ReadBias(const char* name, int max_items, std::vector<std::pair<TokenId, float>>* out);

 private:
  // The member if it is there and nothing was wrong so far.
  const nlohmann::json* Next(const char* name) const;
  void RefuseValue(const char* name, const nlohmann::json& value, const char* wanted);
  // Refuses and returns false for an array or object of more than `max_items`.
  bool CheckSize(const char* name, const nlohmann::json& value, int max_items);

  const nlohmann::json& object_;
  const std::string path_;
  Status status_;
};

// nullopt for what is no integer, or beyond int.
std::optional<int> ToInt(const nlohmann::json& value);

}  // namespace outrider
