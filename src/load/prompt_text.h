// Text of prompts: words of four bytes (" kob"), which Penstock's engines count as one token each and real tokenizers as
// one or two.
#pragma once

#include <cstdint>
#include <string>

#include "load/request_shape.h"

namespace penstock::load {

// Equal seeds give equal words, and a longer text begins with the shorter one. Letters and blanks only. Several GB/s.
void append_words(std::string& out, std::uint64_t seed, std::uint32_t words);

// The text of request `number`: a block id stands for block_tokens words, the rest is its own. Another `seed` shares
// nothing with this one.
void append_prompt(std::string& out, const RequestShape& shape, std::uint64_t seed, std::uint64_t number);

}  // namespace penstock::load
