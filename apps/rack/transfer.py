# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary TCP transfer between two hosts of a rack, with the kernel's own stack."""
import hashlib
import os
import socket
import threading


def transfer(rack, sender, receiver, size, seconds=60):
    """Send random bytes over TCP from host to host. Returns both ends' sha256."""
    with rack.inside(receiver):
        listener = socket.create_server((rack.address(receiver), 0))
    listener.settimeout(seconds)
    seen = {}

    def receive():
        digest, left = hashlib.sha256(), size
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(seconds)
                while True:
                    data = connection.recv(1 << 16)
                    if not data:
                        break
                    digest.update(data)
                    left -= len(data)
            seen['digest'] = digest.hexdigest() if left == 0 else '%d bytes missing' % left
        except OSError as error:
            seen['digest'] = str(error)

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    digest, chunk = hashlib.sha256(), os.urandom(1 << 20)
    with rack.inside(sender):
        connection = socket.socket()
    with connection:
        connection.settimeout(seconds)
        connection.connect((rack.address(receiver), listener.getsockname()[1]))
        for place in range(0, size, len(chunk)):
            data = chunk[:size - place]
            digest.update(data)
            connection.sendall(data)
    thread.join(seconds)
    listener.close()
    return digest.hexdigest(), seen.get('digest', 'the receiver did not end')
