#!/usr/bin/env python3
"""Writes models of random weights: models.py FOLDER NAME...; NAME is tiny, adapter or gguf.

They answer nonsense, but engines load, schedule and count with them as with any model."""

import json
import pathlib
import sys

BYTES = 256
VOCABULARY = 4096  # Mocked engines draw their tokens from about as many.
CONTEXT = 8192
CHAT = ("{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}<|assistant|>")
LLAMA = {"hidden": 256, "layers": 2, "heads": 4, "kv_heads": 2, "feed_forward": 512}
ADAPTER_RANK = 8


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1))


def write_tiny(folder):
    """A Llama as transformers, vLLM, SGLang and Dynamo read it; without weights (--load-format dummy)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = folder / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=2 * BYTES, special_tokens=["<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([pathlib.Path(__file__).read_text()], trainer)
    tokenizer.add_tokens([f" word{number}" for number in range(VOCABULARY - tokenizer.get_vocab_size())])
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token_id": 0, "eos_token_id": 1}
    write_json(folder / "generation_config.json", special)
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "model_max_length": CONTEXT,
        "chat_template": CHAT})
    write_json(folder / "config.json", {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "hidden_act": "silu",
        "hidden_size": LLAMA["hidden"], "intermediate_size": LLAMA["feed_forward"], "num_hidden_layers": LLAMA["layers"],
        "num_attention_heads": LLAMA["heads"], "num_key_value_heads": LLAMA["kv_heads"],
        "head_dim": LLAMA["hidden"] // LLAMA["heads"], "vocab_size": tokenizer.get_vocab_size(), "rms_norm_eps": 1e-5,
        "max_position_embeddings": CONTEXT, "rope_theta": 10000.0, "tie_word_embeddings": False, "attention_bias": False,
        **special})


def write_adapter(folder):
    """A LoRA adapter of `tiny`, as PEFT writes it."""
    import torch
    from safetensors.torch import save_file

    config = json.loads((folder / "tiny/config.json").read_text())
    folder = folder / "adapter"
    folder.mkdir(parents=True, exist_ok=True)
    hidden, head = config["hidden_size"], config["head_dim"]
    generator = torch.Generator().manual_seed(1)
    weights = {}
    for layer in range(config["num_hidden_layers"]):
        for name, heads in (("q_proj", config["num_attention_heads"]), ("v_proj", config["num_key_value_heads"])):
            place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{place}.lora_A.weight"] = torch.randn(ADAPTER_RANK, hidden, generator=generator) / 10
            weights[f"{place}.lora_B.weight"] = torch.randn(heads * head, ADAPTER_RANK, generator=generator) / 10
    save_file(weights, folder / "adapter_model.safetensors")
    write_json(folder / "adapter_config.json", {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": ADAPTER_RANK, "lora_alpha": 2 * ADAPTER_RANK, "lora_dropout": 0.0,
        "bias": "none", "target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": "tiny"})


def write_gguf(folder):
    """A Llama for llama.cpp whose tokens are bytes. It has more layers than `tiny`, so that an answer takes seconds."""
    import gguf
    import numpy

    hidden, layers, heads, feed_forward = 256, 8, 4, 1024
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(BYTES)] + [b"\xe2\x96\x81"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * BYTES + [gguf.TokenType.NORMAL]
    writer = gguf.GGUFWriter(str(folder / "tiny.gguf"), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT)
    random = numpy.random.default_rng(1)

    def add(name, *shape):
        writer.add_tensor(name, (random.standard_normal(shape) * 0.02).astype(numpy.float32))

    def add_norm(name):
        writer.add_tensor(name, numpy.ones(hidden, dtype=numpy.float32))

    add("token_embd.weight", len(tokens), hidden)
    for layer in range(layers):
        place = f"blk.{layer}"
        add_norm(f"{place}.attn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{place}.{name}.weight", hidden, hidden)
        add_norm(f"{place}.ffn_norm.weight")
        add(f"{place}.ffn_gate.weight", feed_forward, hidden)
        add(f"{place}.ffn_up.weight", feed_forward, hidden)
        add(f"{place}.ffn_down.weight", hidden, feed_forward)
    add_norm("output_norm.weight")
    add("output.weight", len(tokens), hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


WRITERS = {"tiny": write_tiny, "adapter": write_adapter, "gguf": write_gguf}

if __name__ == "__main__":
    for each in sys.argv[2:]:
        WRITERS[each](pathlib.Path(sys.argv[1]))
