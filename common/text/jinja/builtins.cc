#include "common/text/jinja/builtins.h"

#include <algorithm>

#include "common/base/printable.h"
#include "common/text/jinja/runtime.h"

namespace outrider::jinja {
namespace {

// Removes and returns the next of names separated by spaces.
std::string_view NextName(std::string_view* names) {
  const size_t end = std::min(names->find(' '), names->size());
  const std::string_view name = names->substr(0, end);
  names->remove_prefix(std::min(end + 1, names->size()));
  return name;
}

// Moves keyword arguments to the positions of their parameters.
Status BindNamed(const Builtin& builtin, const Arguments& arguments, Bound* bound) {
  for (const auto& [name, value] : arguments.named) {
    std::string_view rest = builtin.parameters;
    const bool takes_names = !rest.starts_with('/');
    size_t position = 0;
    bool found = false;
    while (takes_names && !rest.empty() && !found) {
      std::string_view parameter = NextName(&rest);
      if (parameter.ends_with('?')) parameter.remove_suffix(1);
      found = parameter == name;
      position += found ? 0 : 1;
    }
    if (!found) return InvalidArgument("there is no argument '" + Printable(name, 60) + "'");
    if (bound->at[position] != nullptr) {
      return InvalidArgument("argument '" + name + "' is given twice");
    }
    bound->at[position] = &value;
  }
  return Status();
}

Result<Bound> Bind(const Builtin& builtin, const Arguments& arguments) {
  Bound bound;
  bound.all = &arguments;
  if (builtin.parameters == "*") return bound;
  std::string_view rest = builtin.parameters;
  if (rest.starts_with('/')) rest.remove_prefix(1);
  const size_t parameters =
      rest.empty() ? 0 : static_cast<size_t>(std::count(rest.begin(), rest.end(), ' ')) + 1;
  if (arguments.positional.size() > parameters) {
    return InvalidArgument("takes " + std::to_string(parameters) + " arguments at most, not " +
                           std::to_string(arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound.at[i] = &arguments.positional[i];
  OUTRIDER_TRY(BindNamed(builtin, arguments, &bound));
  for (size_t i = 0; i < parameters; ++i) {
    const std::string_view parameter = NextName(&rest);
    if (bound.at[i] == nullptr && !parameter.ends_with('?')) {
      return InvalidArgument("argument '" + std::string(parameter) + "' is missing");
    }
  }
  return bound;
}

}  // namespace

Result<Value> CallBuiltin(const Builtin& builtin, Runtime& runtime, const Value& self,
                          const Arguments& arguments) {
  OUTRIDER_ASSIGN(const Bound bound, Bind(builtin, arguments));
  return builtin.call(runtime, self, bound);
}

}  // namespace outrider::jinja
