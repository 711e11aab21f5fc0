// A chat template with one line per message, for tests that do not test templates.
#pragma once

#include "common/text/chat_template.h"

namespace outrider::testing {

inline ChatTemplate PlainChatTemplate() {
  return ChatTemplate::FromText(
      "{% for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}");
}

}  // namespace outrider::testing
