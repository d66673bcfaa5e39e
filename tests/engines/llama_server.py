"""llama.cpp's server with the model FILE on 127.0.0.1:PORT, for SLOTS requests at once: llama_server.py FILE PORT SLOTS"""

import signal
import sys

import xllamacpp

file, port, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CONTEXT_EACH = 4096

options = xllamacpp.CommonParams()
options.model.path = file
options.hostnames = ["127.0.0.1"]
options.port = port
options.n_parallel = slots
options.kv_unified = False
options.n_ctx = slots * CONTEXT_EACH
options.n_gpu_layers = 0
options.cpuparams.n_threads = 1
options.cpuparams_batch.n_threads = 1
options.warmup = False
options.endpoint_metrics = True
options.model_alias = {"tiny"}
server = xllamacpp.Server(options)
print("ready on", server.listening_address, flush=True)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
