#include "common/text/jinja/template.h"

#include <optional>
#include <string>
#include <utility>

#include "common/text/jinja/evaluator.h"
#include "common/text/jinja/parser.h"
#include "common/text/utf8.h"

namespace outrider::jinja {

Result<Template> Template::Parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return InvalidArgument("the template has " + std::to_string(source.size()) +
                           " bytes, at most " + std::to_string(kMaxTemplateBytes) + " are read");
  }
  if (const std::optional<size_t> pos = FindInvalidUtf8(source)) {
    return InvalidArgument("the template is not UTF-8 at byte " + std::to_string(*pos));
  }
  OUTRIDER_ASSIGN(Program program, ParseTemplate(source));
  return Template(std::move(program));
}

Result<MarkedText> Template::Render(const Dict& variables, const RenderLimits& limits) const {
  return Evaluator(variables, limits).Run(*program_);
}

}  // namespace outrider::jinja
