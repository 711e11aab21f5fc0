// Filters, tests, methods and global functions: what a template can call by name. Each is one
// entry of a table, in filters.cc, tests.cc, methods.cc or functions.cc.
//
// Thread: any; the tables never change.
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

// What a call was made with.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments of a builtin by the position of their parameters.
struct Bound {
  static constexpr size_t kMost = 4;
  std::array<const Value*, kMost> at = {};  // nullptr: left out
  const Arguments* all = nullptr;
};

struct Builtin {
  std::string_view name;
  // Names separated by spaces; "?" after those that may be left out. "/" before all: Python takes
  // them by position only. "*": takes what it is given, from Bound::all.
  std::string_view parameters;
  // `self`: what a filter filters, a test tests, a method belongs to.
  Result<Value> (*call)(Runtime& runtime, const Value& self, const Bound& arguments);
};

// A builtin as a value: a method with its object, or a global function.
struct Function {
  const Builtin* builtin;
  Value self;
};

// nullptr where there is none of the name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindGlobal(std::string_view name);

// The method of a string, list, dictionary ..: nullopt where Python's type has none of the name
// either, Undefined where it would change the object. kInvalidArgument: not supported here.
Result<std::optional<Value>> FindMethod(const Value& object, std::string_view name);

// kInvalidArgument: arguments that its parameters do not take.
Result<Value> CallBuiltin(const Builtin& builtin, Runtime& runtime, const Value& self,
                          const Arguments& arguments);

}  // namespace outrider::jinja
