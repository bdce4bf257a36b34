"""Child process of `local/smollm2`: a llama.cpp server on loopback that ends with its standard input.

    python -m assay.models.local_server WEIGHTS.gguf

The first line of its output is its address. A killed parent closes the pipe, so that no server is left behind.
"""

import os
import sys
from importlib import import_module

SLOTS = 2
CONTEXT_TOKENS = 8192
"""For each slot."""


def serve(weights: str) -> None:
    """Serve the model until the input ends."""
    # The library logs to both streams; only the address goes to the real output, through a copy.
    out = os.dup(1)
    os.dup2(2, 1)
    xllamacpp = import_module("xllamacpp")

    parameters = xllamacpp.CommonParams()
    parameters.model.path = weights
    parameters.model_alias = {"smollm2"}
    parameters.port = 0
    parameters.n_parallel = SLOTS
    parameters.n_ctx = CONTEXT_TOKENS * SLOTS
    server = xllamacpp.Server(parameters)
    os.write(out, f"{server.listening_address}\n".encode())
    sys.stdin.buffer.read()
    # An orderly shutdown waits for requests in flight, whose replies no process would read.
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
