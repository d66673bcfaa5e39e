// What sdk_test.py does with the Python SDK, with the one for Node: node sdk_client.mjs URL
import assert from "node:assert/strict";
import OpenAI from "openai";

const baseURL = process.argv[2];
const model = "penstock-sim";
const messages = [{ role: "user", content: "say something" }];
const clientOf = (apiKey, maxRetries = 0) => new OpenAI({ baseURL, apiKey, maxRetries });
const client = clientOf("sk-large");
const words = (text) => text.trim().split(/\s+/).length;
const ask = (who, more) => who.chat.completions.create({ model, messages, max_tokens: 4, ignore_eos: true, ...more });

assert.deepEqual((await client.models.list()).data.map((each) => each.id), [model]);

const answer = await ask(client, { max_tokens: 7 });
assert.equal(answer.usage.completion_tokens, 7);
assert.equal(words(answer.choices[0].message.content), 7);
assert.ok(answer._request_id);

let text = "";
let usage = null;
for await (const piece of await ask(client, { max_tokens: 9, stream: true, stream_options: { include_usage: true } })) {
  text += piece.choices[0]?.delta.content ?? "";
  usage = piece.usage ?? usage;
}
assert.equal(words(text), 9);
assert.equal(usage.completion_tokens, 9);

await assert.rejects(ask(clientOf("sk-wrong")), OpenAI.AuthenticationError);
await assert.rejects(ask(client, { model: "unknown" }), OpenAI.NotFoundError);
await assert.rejects(ask(client, { messages: [] }), OpenAI.BadRequestError);
await assert.rejects(
  async () => {
    for (let i = 0; i < 3; ++i) await ask(clientOf("sk-small"), { max_tokens: 60 });
  },
  (error) => error instanceof OpenAI.RateLimitError && Number(error.headers.get("retry-after")) >= 1,
);
assert.equal((await ask(clientOf("sk-small", 4), { max_tokens: 60 })).usage.completion_tokens, 60);

const cancelled = await ask(client, { max_tokens: 5000, stream: true });
for await (const piece of cancelled) {
  assert.ok(piece);
  break; // which aborts the request
}

console.log("all good");
