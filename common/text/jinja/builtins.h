// Filters, tests, methods and global functions: what a template can call by name. Each is an entry
// of a table in filters.cc, tests.cc, methods.cc or functions.cc.
//
// Thread: any; the tables are constant.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

class Runtime;

// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments of a builtin, by position of their parameters.
struct Bound {
  static constexpr size_t kMax = 4;
  std::array<const Value*, kMax> at = {};  // nullptr: left out
  const Arguments* all = nullptr;
};

struct Builtin {
  std::string_view name;
  // Names separated by spaces; "?" after optional ones. A leading "/": Python only accepts them by
  // position. "*": takes any arguments, from Bound::all.
  std::string_view parameters;
  // `self`: the operand of a filter or test, or the object of a method.
  Result<Value> (*call)(Runtime& runtime, const Value& self, const Bound& arguments);
};

// A builtin as a value: a method with its object, or a global function.
struct Function {
  const Builtin* builtin;
  Value self;
};

// Returns nullptr if there is none of this name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindGlobal(std::string_view name);

// The method of a string, list, dictionary ..: nullopt if Python's type has no such method,
// Undefined if it would change the object. kInvalidArgument: not supported here.
Result<std::optional<Value>> FindMethod(const Value& object, std::string_view name);

// kInvalidArgument: its parameters do not accept the arguments.
Result<Value> CallBuiltin(const Builtin& builtin, Runtime& runtime, const Value& self,
                          const Arguments& arguments);

}  // namespace outrider::jinja
