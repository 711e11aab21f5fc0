#include "common/json/json.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "common/base/input_file.h"
#include "common/base/printable.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

std::string ToText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ShownJson(const Json& json) {
  if (json.is_array()) return "an array";
  if (json.is_object()) return "an object";
  if (!json.is_string()) return ToText(json);
  return ToText(Printable(json.get_ref<const std::string&>(), kMaxShownText));
}

// One step of a path: ".name", or ["any text"].
std::string Step(std::string_view name) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (!name.empty() && name.size() <= kMaxShownText &&
      name.find_first_not_of(kPlain) == std::string_view::npos) {
    return "." + std::string(name);
  }
  return "[" + ToText(Printable(name, kMaxShownText)) + "]";
}

std::string Step(size_t index) { return "[" + std::to_string(index) + "]"; }

// The steps from `from` down to `wanted`; nullopt if it is not below. Computed when a message needs
// them, so that a walk over millions of values builds no paths.
std::optional<std::string> StepsTo(const Json* wanted, const Json& from) {
  if (&from == wanted) return "";
  if (!from.is_structured()) return std::nullopt;
  size_t index = 0;
  for (auto it = from.begin(); it != from.end(); ++it, ++index) {
    if (auto steps = StepsTo(wanted, *it)) {
      return (from.is_object() ? Step(it.key()) : Step(index)) + *steps;
    }
  }
  return std::nullopt;
}

std::string WithoutDot(const std::string& steps) {
  return steps.starts_with('.') ? steps.substr(1) : steps;
}

std::string ToText(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

template <class T, class Out>
Status Store(Result<T> value, Out* out) {
  OUTRIDER_ASSIGN(*out, std::move(value));
  return Status();
}

// Member names of objects that are not in alphabetical order, in the order of the text. Objects and
// names belong to the parsed value.
using MemberOrders = std::unordered_map<const Json::object_t*, std::vector<const std::string*>>;

// Texts of integers beyond 64 bits, of which the parsed value has the nearest double.
using LongIntegers = std::unordered_map<const Json*, std::string>;

bool IsIntegerText(const std::string& text) {
  return text.find_first_of(".eE") == std::string::npos;
}

// Builds the value during parsing, and stops the parser at a limit.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& name, const JsonLimits& limits, Json* root, MemberOrders* orders)
      : name_(name), limits_(limits), root_(root), orders_(orders) {}

  const std::string& error() const { return error_; }
  // Call it when all is parsed: until then items move as their arrays grow.
  LongIntegers TakeLongIntegers() {
    LongIntegers out;
    for (LongInteger& found : long_integers_) {
      const Json* const at = found.array ? &(*found.array)[found.index] : found.member;
      out.emplace(at, std::move(found.text));
    }
    return out;
  }

  bool null() override { return Add(nullptr, 0) != nullptr; }
  bool boolean(bool value) override { return Add(value, 0) != nullptr; }
  bool number_integer(int64_t value) override { return Add(value, 0) != nullptr; }
  bool number_unsigned(uint64_t value) override { return Add(value, 0) != nullptr; }
  bool number_float(double value, const std::string& text) override {
    const bool keeps_text = limits_.exact_text && IsIntegerText(text) && !open_.empty();
    if (Add(value, keeps_text ? 1 : 0) == nullptr) return false;
    if (!keeps_text) return true;
    const auto* const array = open_.back()->get_ptr<const Json::array_t*>();
    const size_t index = array == nullptr ? 0 : array->size() - 1;
    long_integers_.push_back({array, index, member_, text});
    return true;
  }
  bool string(std::string& value) override { return Add(std::move(value), 1) != nullptr; }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return Open(Json::object()); }
  bool start_array(size_t /*size*/) override { return Open(Json::array()); }
  bool end_object() override {
    if (limits_.exact_text) KeepOrder();
    return Close();
  }
  bool end_array() override { return Close(); }
  bool key(std::string& name) override {
    if (!Count(0, 1)) return false;
    const auto [it, is_new] = open_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
    member_ = &it->second;
    if (limits_.exact_text && is_new) names_.back().push_back(&it->first);
    if (is_new || limits_.repeated_members) return true;
    error_ = WithoutDot(StepsTo(open_.back(), *root_).value_or("") + Step(name)) +
             " is given twice; give it once";
    return false;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return Fail("is not well-formed JSON in UTF-8, near byte " + std::to_string(position));
  }

 private:
  struct LongInteger {
    const Json::array_t* array;  // nullptr: it is `member` of an object
    size_t index;
    const Json* member;
    std::string text;
  };

  bool Fail(const std::string& why) {
    error_ = name_ + " " + why;
    return false;
  }
  bool Count(size_t values, size_t large_values) {
    values_ += values;
    large_values_ += large_values;
    if (values_ > limits_.values) {
      return Fail("holds more than " + std::to_string(limits_.values) + " values");
    }
    return large_values_ <= limits_.large_values ||
           Fail("holds more than " + std::to_string(limits_.large_values) +
                " members, strings, arrays, objects and integers beyond 64 bits");
  }
  // Returns nullptr at a limit.
  Json* Add(Json value, size_t large_values) {
    if (!Count(1, large_values)) return nullptr;
    if (open_.empty()) return &(*root_ = std::move(value));
    Json& parent = *open_.back();
    if (!parent.is_array()) return &(*member_ = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool Open(Json empty) {
    if (open_.size() == limits_.depth) {
      return Fail("is nested deeper than " + std::to_string(limits_.depth) + " levels");
    }
    Json* const added = Add(std::move(empty), 1);
    if (added == nullptr) return false;
    open_.push_back(added);
    names_.emplace_back();
    return true;
  }
  void KeepOrder() {
    std::vector<const std::string*>& names = names_.back();
    const bool by_name = std::is_sorted(names.begin(), names.end(),
                                        [](const auto* a, const auto* b) { return *a < *b; });
    if (!by_name) {
      orders_->emplace(open_.back()->get_ptr<const Json::object_t*>(), std::move(names));
    }
  }
  bool Close() {
    names_.pop_back();
    open_.pop_back();
    return true;
  }

  const std::string& name_;
  const JsonLimits& limits_;
  Json* const root_;
  MemberOrders* const orders_;
  std::vector<Json*> open_;                             // from the root to the parser's position
  std::vector<std::vector<const std::string*>> names_;  // of each of these, as the text has them
  Json* member_ = nullptr;  // member of the innermost object whose value comes next
  std::vector<LongInteger> long_integers_;
  size_t values_ = 0, large_values_ = 0;
  std::string error_;
};

}  // namespace

struct JsonValue::Document {
  std::string name;    // what errors call the whole text
  std::string prefix;  // of every message: "<file>: " or empty
  Json root;
  MemberOrders orders;
  LongIntegers long_integers;

  static Result<JsonValue> Parse(std::string_view text, const std::string& name,
                                 const std::string& prefix, const JsonLimits& limits) {
    if (text.size() > limits.bytes) {
      return InvalidArgument(prefix + name + " has " + std::to_string(text.size()) +
                             " bytes, at most " + std::to_string(limits.bytes) + " are read");
    }
    // The library would treat it as the end of the text.
    if (const size_t nul = text.find('\0'); nul != text.npos) {
      return InvalidArgument(prefix + name + " has a NUL at byte " + std::to_string(nul) +
                             ", which JSON does not have");
    }
    const auto document = std::make_shared<Document>(Document{name, prefix, nullptr, {}, {}});
    Builder builder(name, limits, &document->root, &document->orders);
    if (!Json::sax_parse(text, &builder)) return InvalidArgument(prefix + builder.error());
    document->long_integers = builder.TakeLongIntegers();
    if (!document->root.is_object()) {
      return InvalidArgument(prefix + name + " is not a JSON object but " +
                             ShownJson(document->root));
    }
    return JsonValue(document, &document->root);
  }
};

Result<JsonValue> ParseJsonObject(std::string_view text, const std::string& name,
                                  const JsonLimits& limits) {
  return JsonValue::Document::Parse(text, name, "", limits);
}

Result<JsonValue> ReadJsonObject(const std::filesystem::path& file, const JsonLimits& limits) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(file, limits.bytes));
  return JsonValue::Document::Parse(text, "the file", file.string() + ": ", limits);
}

const Json& JsonValue::json() const {
  if (!absent()) return *json_;
  static const Json kNull;
  return kNull;
}

const std::string* JsonValue::long_integer() const {
  if (absent()) return nullptr;
  const auto found = document_->long_integers.find(json_);
  return found == document_->long_integers.end() ? nullptr : &found->second;
}

JsonValue JsonValue::operator[](std::string_view name) const {
  if (json().is_object()) {
    if (const auto found = json_->find(name); found != json_->end()) return {document_, &*found};
  }
  JsonValue missing = *this;
  missing.missing_ += Step(name);
  return missing;
}

JsonValue JsonValue::operator[](size_t index) const {
  if (is_array() && index < json_->size()) return {document_, &(*json_)[index]};
  JsonValue missing = *this;
  missing.missing_ += Step(index);
  return missing;
}

size_t JsonValue::size() const { return json().is_structured() ? json_->size() : 0; }

Status JsonValue::ForEachMember(
    const std::function<Status(const std::string&, const JsonValue&)>& visit) const {
  if (!is_object()) return Status();
  const auto& members = json_->get_ref<const Json::object_t&>();
  if (const auto order = document_->orders.find(&members); order != document_->orders.end()) {
    for (const std::string* name : order->second) {
      OUTRIDER_TRY(visit(*name, {document_, &members.at(*name)}));
    }
    return Status();
  }
  for (const auto& [name, value] : members) {
    OUTRIDER_TRY(visit(name, {document_, &value}));
  }
  return Status();
}

Status JsonValue::AllowOnly(std::initializer_list<std::string_view> names) const {
  OUTRIDER_TRY(MustBeObject());
  return ForEachMember([&](const std::string& name, const JsonValue& value) {
    // What is null counts as absent.
    if (value.is_null() || std::find(names.begin(), names.end(), name) != names.end()) {
      return Status();
    }
    std::string known;
    for (const std::string_view each : names)
      known += (known.empty() ? "" : ", ") + std::string(each);
    return value.Error("is not known here; known are " + known);
  });
}

bool JsonValue::is_null() const { return json().is_null(); }
bool JsonValue::is_bool() const { return json().is_boolean(); }
bool JsonValue::is_integer() const {
  return json().is_number_integer() || long_integer() != nullptr;
}
bool JsonValue::is_int64() const {
  // An unsigned one first: get<int64_t> of a larger number would wrap.
  return json().is_number_integer() &&
         !(json().is_number_unsigned() && json().get<uint64_t>() > uint64_t{INT64_MAX});
}
bool JsonValue::is_number() const { return json().is_number(); }
bool JsonValue::is_string() const { return json().is_string(); }
bool JsonValue::is_array() const { return json().is_array(); }
bool JsonValue::is_object() const { return json().is_object(); }
Status JsonValue::MustBeArray() const { return is_array() ? Status() : Wrong("an array"); }
Status JsonValue::MustBeObject() const { return is_object() ? Status() : Wrong("an object"); }

Result<bool> JsonValue::Bool() const {
  if (!json().is_boolean()) return Wrong("true or false");
  return json().get<bool>();
}

Result<std::string> JsonValue::String() const {
  if (!is_string()) return Wrong("a string");
  return text();
}

Result<int> JsonValue::Int(int low, int high) const {
  OUTRIDER_ASSIGN(const int64_t value, Int64(low, high));
  return static_cast<int>(value);
}

Result<int64_t> JsonValue::Int64(int64_t low, int64_t high) const {
  const bool fits = is_int64() && json().get<int64_t>() >= low && json().get<int64_t>() <= high;
  if (!fits) return Wrong("an integer from " + std::to_string(low) + " to " + std::to_string(high));
  return json().get<int64_t>();
}

Result<float> JsonValue::Float() const {
  if (!json().is_number()) return Wrong("a number");
  const double value = json().get<double>();
  if (!(std::abs(value) <= double{FLT_MAX})) return Wrong("a number of 32 bits");
  return static_cast<float>(value);
}

Result<double> JsonValue::Number(double low, double high) const {
  const double value = json().is_number() ? json().get<double>() : NAN;
  if (!(value >= low && value <= high)) {
    return Wrong("a number from " + ToText(low) + " to " + ToText(high));
  }
  return value;
}

Status JsonValue::Read(bool* out) const { return is_null() ? Status() : Store(Bool(), out); }
Status JsonValue::Read(float* out) const { return is_null() ? Status() : Store(Float(), out); }
Status JsonValue::Read(std::string* out) const {
  return is_null() ? Status() : Store(String(), out);
}
Status JsonValue::Read(int* out, int low, int high) const {
  return is_null() ? Status() : Store(Int(low, high), out);
}
Status JsonValue::Read(std::optional<int>* out) const {
  return is_null() ? Status() : Store(Int(), out);
}

Status JsonValue::Read(std::optional<uint64_t>* out) const {
  if (is_null()) return Status();
  if (!json().is_number_integer()) return Wrong("an integer of 64 bits");
  *out = json().is_number_unsigned() ? json().get<uint64_t>()
                                     : static_cast<uint64_t>(json().get<int64_t>());
  return Status();
}

const std::string& JsonValue::text() const {
  if (is_string()) return json_->get_ref<const std::string&>();
  static const std::string kNone;
  return kNone;
}

bool JsonValue::Is(std::string_view text) const { return is_string() && this->text() == text; }

bool JsonValue::Is(double number) const {
  return json().is_number() && json().get<double>() == number;
}

bool JsonValue::IsOneOf(const char* array) const {
  const Json values = Json::parse(array);
  return std::find(values.begin(), values.end(), json()) != values.end();
}

std::string JsonValue::path() const {
  const std::string steps = StepsTo(json_, document_->root).value_or("") + missing_;
  return document_->prefix + (steps.empty() ? document_->name : WithoutDot(steps));
}

std::string JsonValue::Shown() const {
  const std::string* const digits = long_integer();
  return digits == nullptr ? ShownJson(json()) : Printable(*digits, kMaxShownText);
}

std::string JsonValue::Dump() const {
  if (const std::string* const digits = long_integer()) return *digits;
  const bool is_plain = document_->orders.empty() && document_->long_integers.empty();
  if (absent() || !json_->is_structured() || is_plain) return ToText(json());
  std::string out;
  const auto add = [&](const std::string& name, const JsonValue& value) {
    if (!out.empty()) out += ',';
    out += name + value.Dump();
    return Status();
  };
  if (json_->is_array()) {
    for (size_t i = 0; i < size(); ++i) (void)add("", (*this)[i]);
    return "[" + out + "]";
  }
  (void)ForEachMember([&](const std::string& name, const JsonValue& value) {
    return add(ToText(Json(name)) + ":", value);
  });
  return "{" + out + "}";
}

Status JsonValue::Error(const std::string& why) const {
  return InvalidArgument(path() + ": " + why);
}

Status JsonValue::Wrong(const std::string& wanted) const {
  return InvalidArgument(path() + (absent() ? " is missing" : " is " + Shown()) + ", must be " +
                         wanted);
}

Status JsonValue::Unsupported(const std::string& more) const {
  return Unimplemented(path() + " is " + Shown() + ", which is not supported" + more);
}

}  // namespace outrider
