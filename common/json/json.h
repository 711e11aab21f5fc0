// Reads JSON that others wrote: a model's files, a client's request, a scenario. Every text goes
// through one parser, and every value through JsonValue, which checks types and ranges and words
// the errors:
//
//   OUTRIDER_ASSIGN(const JsonValue config, ReadJsonObject(path, {.bytes = 4 << 20}));
//   OUTRIDER_ASSIGN(model.layers, config["num_hidden_layers"].Int(1, 1024));  // must be there
//   OUTRIDER_TRY(config["tie_word_embeddings"].Read(&model.tied));            // may be left out
//
// Errors are kInvalidArgument and name the file, the path within it, the value, and what is wanted:
//   /m/config.json: rope_scaling.factor is "8", must be a number
//
// Thread: any; a value never changes. It keeps its whole document alive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"

namespace outrider {

// Levels of arrays and objects. No file of a model and no request needs more than eight.
inline constexpr size_t kMaxJsonDepth = 16;

// What a text may hold, checked while it is parsed: a text beyond a limit costs no more than one at
// the limit. Time is linear in the bytes.
struct JsonLimits {
  size_t bytes = std::numeric_limits<size_t>::max();
  size_t depth = kMaxJsonDepth;  // levels of arrays and objects; errors call themselves for each
  size_t values = std::numeric_limits<size_t>::max();
  // Members, strings, arrays and objects, which take up to 200 bytes each, and their text.
  size_t large_values = std::numeric_limits<size_t>::max();
  // Whether an object may name a member twice, and the last one counts. Readers differ in which one
  // they believe, so it is refused where no file in use needs it.
  bool repeated_members = false;
  // Whether objects are walked in the order of the text, and not in that of the names: for what is
  // shown to a model, where a client's order counts.
  bool text_order = false;
};

class JsonValue {
 public:
  struct Document;  // the parsed text and how errors name it

  // The member `name`, or the item `index` of an array. What is not there is an absent value, also
  // below something that is no object: errors about it say that it is missing.
  JsonValue operator[](std::string_view name) const;
  JsonValue operator[](size_t index) const;
  // Items of an array, members of an object; else 0.
  size_t size() const;
  // In the order of the names, or of the text if JsonLimits::text_order asked for it. Stops at the
  // first error and returns it.
  Status ForEachMember(
      const std::function<Status(const std::string& name, const JsonValue& value)>& visit) const;
  // kInvalidArgument unless it is an object that has no other members than these.
  Status AllowOnly(std::initializer_list<std::string_view> names) const;

  bool absent() const { return !missing_.empty(); }
  bool is_null() const;  // or absent, which means the same to most readers
  bool is_bool() const;
  bool is_integer() const;
  bool is_number() const;  // integers too
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  Status MustBeArray() const;
  Status MustBeObject() const;

  // A value that must be there. Ranges include their ends.
  Result<bool> Bool() const;
  Result<std::string> String() const;
  Result<int> Int(int low = std::numeric_limits<int>::min(),
                  int high = std::numeric_limits<int>::max()) const;
  Result<int64_t> Int64(int64_t low, int64_t high) const;
  Result<float> Float() const;  // finite
  Result<double> Number(double low, double high) const;

  // A value that may be null or absent: `out` then keeps what it holds.
  Status Read(bool* out) const;
  Status Read(std::string* out) const;
  Status Read(int* out, int low = std::numeric_limits<int>::min(),
              int high = std::numeric_limits<int>::max()) const;
  Status Read(std::optional<int>* out) const;
  Status Read(float* out) const;
  // Any integer of 64 bits; a negative one as its two's complement.
  Status Read(std::optional<uint64_t>* out) const;

  // The text of a string, without a copy; "" for anything else.
  const std::string& text() const;
  // Whether it is this string, or this number (1.0 is 1).
  bool Is(std::string_view text) const;
  bool Is(double number) const;
  // Whether it is an item of `array`, a JSON array in our source.
  bool IsOneOf(const char* array) const;

  // "messages[3].content", after the name of the file if it came from one. Looks through the whole
  // document: for messages only.
  std::string path() const;
  // The value for a message: numbers, booleans and the first bytes of a string as JSON, else what
  // it is ("an array").
  std::string Shown() const;
  std::string Dump() const;  // as JSON, whole; members in the order of ForEachMember
  // kInvalidArgument "<path>: <why>" and "<path> is <value>, must be <wanted>".
  Status Error(const std::string& why) const;
  Status Wrong(const std::string& wanted) const;
  // kUnimplemented "<path> is <value>, which is not supported<more>".
  Status Unsupported(const std::string& more = "") const;

 private:
  JsonValue(std::shared_ptr<const Document> document, const nlohmann::json* json)
      : document_(std::move(document)), json_(json) {}

  const nlohmann::json& json() const;

  std::shared_ptr<const Document> document_;
  const nlohmann::json* json_;  // the value, or the last one on the way to it that there is
  std::string missing_;         // the rest of the way
};

// Bytes of somebody else's text in an error message.
inline constexpr size_t kMaxShownText = 64;

// Parses an object. `name`: what errors about the whole text call it ("the body"). kInvalidArgument
// for what is not well-formed JSON in UTF-8, no object, or beyond `limits`.
Result<JsonValue> ParseJsonObject(std::string_view text, const std::string& name,
                                  const JsonLimits& limits = {});
// The same of a file, which all errors then name; those of common/base/input_file.h besides.
Result<JsonValue> ReadJsonObject(const std::filesystem::path& file, const JsonLimits& limits);

}  // namespace outrider
