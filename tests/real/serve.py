"""Serves one model on loopback until standard input ends: MODEL CONTEXT. Prints its address."""
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = int(sys.argv[2])
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_parallel = 1
params.use_jinja = True
params.offline = True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
