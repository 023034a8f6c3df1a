"""A LiteLLM proxy on loopback until standard input ends: CONFIG PORT."""
import os
import sys
import threading


def wait():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=wait, daemon=True).start()
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
from litellm import run_server

run_server(["--config", sys.argv[1], "--host", "127.0.0.1", "--port", sys.argv[2], "--telemetry", "False"])
