// The HTTP front's API as an OpenAPI 3.1 document, generated from the routes and from the tables by
// which requests are checked.
//
// Thread: any.
#pragma once

#include <span>
#include <string>

#include "verifier/http/routes.h"

namespace outrider {

// `routes`: those that the server has. `model`: the name of its model.
std::string OpenApi(std::span<const Route> routes, const std::string& version,
                    const std::string& model);

}  // namespace outrider
