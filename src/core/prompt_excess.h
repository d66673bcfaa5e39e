// How much shorter a prompt must become to fit into a context.
#pragma once

namespace penstock::core {

// The prompt fits once so many tokens are dropped from it. A dropped byte saves at least the tokens that are given.
struct PromptExcess {
  double tokens = 0.0;
  double tokens_per_text_byte = 0.25;
  double tokens_per_rendered_byte = 1.0;  // Of other fields that the template of a chat may render.
};

}  // namespace penstock::core
