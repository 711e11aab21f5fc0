// Reads JSON written by others: a model's files, a client's request, a scenario. Every text goes
// through one parser, and every value through JsonValue, which checks types and ranges and makes
// the error messages:
//
//   OUTRIDER_ASSIGN(const JsonValue config, ReadJsonObject(path, {.bytes = 4 << 20}));
//   OUTRIDER_ASSIGN(model.layers, config["num_hidden_layers"].Int(1, 1024));  // required
//   OUTRIDER_TRY(config["tie_word_embeddings"].Read(&model.tied));            // optional
//
// Errors are kInvalidArgument and name the file, the path within it, the value, and what is
// expected:
//   /m/config.json: rope_scaling.factor is "8", must be a number
//
// Thread: any; values are immutable. Each keeps its whole document alive.
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

// Nesting limit of arrays and objects. No model file and no request needs more than eight.
inline constexpr size_t kMaxJsonDepth = 16;

// Limits of a text, checked during parsing: a text beyond a limit costs no more than one at the
// limit. Time is linear in the bytes.
struct JsonLimits {
  size_t bytes = std::numeric_limits<size_t>::max();
  // nesting of arrays and objects; error paths recurse for each level
  size_t depth = kMaxJsonDepth;
  size_t values = std::numeric_limits<size_t>::max();
  // Members, strings, arrays, objects and integers beyond 64 bits with exact_text, which take up to
  // 200 bytes each plus their text.
  size_t large_values = std::numeric_limits<size_t>::max();
  // Whether an object may repeat a member, of which the last one counts. Readers differ in which
  // one they use, so it is refused unless files in use need it.
  bool repeated_members = false;
  // For what is shown to a model: objects keep the order of the text instead of that of the names,
  // and integers beyond 64 bits their digits instead of the nearest double. Not with
  // `repeated_members`.
  bool exact_text = false;
};

class JsonValue {
 public:
  struct Document;  // the parsed text and its name in errors

  // The member `name`, or the item `index` of an array. If missing, also below something that is
  // not an object, it is an absent value, and errors about it say so.
  JsonValue operator[](std::string_view name) const;
  JsonValue operator[](size_t index) const;
  // Number of items of an array or members of an object; else 0.
  size_t size() const;
  // In the order of the names, or of the text with JsonLimits::exact_text. Stops at the first error
  // and returns it.
  Status ForEachMember(
      const std::function<Status(const std::string& name, const JsonValue& value)>& visit) const;
  // kInvalidArgument unless it is an object with no other members than these, or null ones.
  Status AllowOnly(std::initializer_list<std::string_view> names) const;

  bool absent() const { return !missing_.empty(); }
  bool is_null() const;  // or absent, which is equivalent for most readers
  bool is_bool() const;
  bool is_integer() const;  // also beyond 64 bits, with JsonLimits::exact_text
  bool is_int64() const;
  bool is_number() const;  // including integers
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  Status MustBeArray() const;
  Status MustBeObject() const;

  // A required value. Ranges are inclusive.
  Result<bool> Bool() const;
  Result<std::string> String() const;
  Result<int> Int(int low = std::numeric_limits<int>::min(),
                  int high = std::numeric_limits<int>::max()) const;
  Result<int64_t> Int64(int64_t low, int64_t high) const;
  Result<float> Float() const;  // finite
  Result<double> Number(double low, double high) const;

  // An optional value: if it is null or absent, `out` is not changed.
  Status Read(bool* out) const;
  Status Read(std::string* out) const;
  Status Read(int* out, int low = std::numeric_limits<int>::min(),
              int high = std::numeric_limits<int>::max()) const;
  Status Read(std::optional<int>* out) const;
  Status Read(float* out) const;
  // Any 64-bit integer; a negative one as its two's complement.
  Status Read(std::optional<uint64_t>* out) const;

  // The text of a string, without copying; "" for other values.
  const std::string& text() const;
  // The same for the same part of a document, while a value of that document exists.
  const void* place() const { return json_; }
  // Whether it equals this string or number (1.0 is 1).
  bool Is(std::string_view text) const;
  bool Is(double number) const;
  // Whether it is an item of `array`, a JSON array in our source.
  bool IsOneOf(const char* array) const;

  // "messages[3].content", after the name of the file if it came from one. Searches the whole
  // document, so use it only for messages.
  std::string path() const;
  // The value for a message: numbers, booleans and the first bytes of a string as JSON, else its
  // kind ("an array").
  std::string Shown() const;
  std::string Dump() const;  // as complete JSON; members in the order of ForEachMember
  // kInvalidArgument "<path>: <why>" and "<path> is <value>, must be <wanted>".
  Status Error(const std::string& why) const;
  Status Wrong(const std::string& wanted) const;
  // kUnimplemented "<path> is <value>, which is not supported<more>".
  Status Unsupported(const std::string& more = "") const;

 private:
  JsonValue(std::shared_ptr<const Document> document, const nlohmann::json* json)
      : document_(std::move(document)), json_(json) {}

  const nlohmann::json& json() const;
  // The text of an integer beyond 64 bits, with JsonLimits::exact_text; else nullptr.
  const std::string* long_integer() const;

  std::shared_ptr<const Document> document_;
  const nlohmann::json* json_;  // the value, or the last existing one on the path to it
  std::string missing_;         // the rest of the path
};

// The most bytes of text from outside in an error message.
inline constexpr size_t kMaxShownText = 64;

// Parses an object. `name`: what errors call the whole text ("the body"). kInvalidArgument: it is
// not well-formed JSON in UTF-8, not an object, or beyond `limits`.
Result<JsonValue> ParseJsonObject(std::string_view text, const std::string& name,
                                  const JsonLimits& limits = {});
// The same for a file, which all errors then name; also the errors of common/base/input_file.h.
Result<JsonValue> ReadJsonObject(const std::filesystem::path& file, const JsonLimits& limits);

}  // namespace outrider
