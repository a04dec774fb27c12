"""Whether the process in this container is well: `healthy.py PORT PAGE`. For HEALTHCHECK: imports next to nothing."""

import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 4) as server:
    server.sendall(f"GET {sys.argv[2]} HTTP/1.0\r\n\r\n".encode())
    answer = b"".join(iter(lambda: server.recv(4096), b""))
print(answer.decode(errors="replace").rpartition("\r\n")[2].strip())
sys.exit(b" 200 " not in answer.split(b"\r\n")[0])
