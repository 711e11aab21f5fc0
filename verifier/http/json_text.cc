#include "verifier/http/json_text.h"

#include <nlohmann/json.hpp>

namespace outrider {

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace outrider
