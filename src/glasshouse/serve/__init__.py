"""Serving saved models on Ray: replicas that batch requests, and batches of Ray Data.

from ray import serve
import glasshouse.serve
handle = serve.run(glasshouse.serve.deployment("saved", num_replicas=2))
y = handle.run.remote(x).result()
"""

from glasshouse.serve.data import map_batches
from glasshouse.serve.deploy import app, deployment

__all__ = ["app", "deployment", "map_batches"]
