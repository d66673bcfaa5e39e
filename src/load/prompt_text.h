// Prompt text of four-byte words (" kob"), which Penstock's engines count as one token each and real tokenizers as one
// or two.
#pragma once

#include <cstdint>
#include <string>

#include "load/request_shape.h"

namespace penstock::load {

// Equal seeds give equal words, and a longer text starts with the shorter one. Letters and blanks only. Several GB/s.
void append_text(std::string& out, std::uint64_t seed, std::uint32_t words);

// Text of request `number`: each block id yields block_tokens shared words, the rest is unique. Texts of different
// seeds share nothing.
void append_prompt(std::string& out, const RequestShape& shape, std::uint64_t seed, std::uint64_t number);

}  // namespace penstock::load
