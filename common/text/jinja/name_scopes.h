// Finds the names that are undefined where a scope begins. Jinja compiles a template, and a name
// that a scope assigns before it reads it is a variable of that scope from its beginning, also for
// inner scopes. In
//
//   {% for m in messages %}{{ tools }}{% endfor %}{% set tools = 1 %}
//
// the loop does not see the variable `tools` that was passed to the template.
//
// Thread: any.
#pragma once

#include "common/text/jinja/ast.h"

namespace outrider::jinja {

// Fills the `unset` of every scope below `body`. Returns that of the template itself.
std::vector<std::string> FindUnsetNames(Body* body);

}  // namespace outrider::jinja
