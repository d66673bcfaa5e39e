-- wrk's requests: chats of a given size, so many different ones, one after the other.
--   wrk … -s chat.lua URL -- BYTES PROMPTS SHARED_BYTES KEY      shared: what the prompts have in common at their front
local requests, next_request = {}, 0

function init(arguments)
  local bytes, prompts, shared = tonumber(arguments[1]), tonumber(arguments[2]), tonumber(arguments[3])
  local prose = "The quick brown fox jumps over the lazy dog, twice, and then it goes back home. "
  local front = string.rep(prose, math.ceil(shared / #prose)):sub(1, shared)
  for i = 1, prompts do
    local content = front .. "prompt " .. i .. ": "
    local own = bytes - 90 - #content
    content = content .. string.rep(prose, math.ceil(own / #prose)):sub(1, own)
    local body = '{"model":"m","messages":[{"role":"user","content":"' .. content .. '"}],"max_tokens":10}'
    local fields = {["Content-Type"] = "application/json", ["Authorization"] = "Bearer " .. arguments[4]}
    requests[i] = wrk.format("POST", "/v1/chat/completions", fields, body)
  end
end

function request()
  next_request = next_request % #requests + 1
  return requests[next_request]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('{"requests":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f,"faults":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
