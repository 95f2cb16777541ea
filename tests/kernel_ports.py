"""Kernels that tests start at the same time, in two processes, must not choose the same port.

Jupyter asks the system for a free port, lets it go and gives its number to the kernel.
Meanwhile another process may be given the same one. Here every pytest worker takes ports of
its own, below those that the system gives out.
"""

import itertools
import os
import socket

from jupyter_client.provisioning.local_provisioner import LocalPortCache


def keep_apart():
    """From now on, kernels of this process take ports that only this worker uses."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = itertools.cycle(range(15_000 + 2_000 * worker, 17_000 + 2_000 * worker))

    def next_free(self, ip):
        for port in ports:
            with socket.socket() as probe:
                if probe.connect_ex((ip or "127.0.0.1", port)):
                    return port

    LocalPortCache.find_available_port = next_free
