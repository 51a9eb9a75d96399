#!/usr/bin/env python3
"""Crowds the door of a coordinator with a key: crowd.py HOST:PORT COUNT SECONDS keeps COUNT connections open, of which a
third says nothing, a third a part of a challenge, and a third a challenge and then nothing. Who is thrown out comes
again, up to 5,000 a second. Prints "full" when COUNT have come, and at the end how many came in all."""
import contextlib
import resource
import socket
import struct
import sys
import time

CHALLENGE = struct.pack("<IBBBB", 0x314B524D, 1, 1, 1, 0) + bytes(64)
AGAIN = 50  # each hundredth of a second
SAYS = [b"", CHALLENGE[:9], CHALLENGE]


class Caller:
    def __init__(self, host, port, number):
        self.says = SAYS[number % 3]
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex((host, port))

    def stays(self):
        """False when it was thrown out, or never let in."""
        try:
            if self.says:
                self.socket.send(self.says)
                self.says = b""
            return self.socket.recv(4096) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    count, end = int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    crowd, came = [], 0
    while time.monotonic() < end:
        most = count if came < count else came + AGAIN
        while len(crowd) < count and came < most:
            crowd.append(Caller(host, int(port), came))
            came += 1
        if came == count:
            print("full", flush=True)
        stay = [caller for caller in crowd if caller.stays()]
        for caller in set(crowd).difference(stay):
            caller.socket.close()
        crowd = stay
        time.sleep(0.01)
    print(came)


if __name__ == "__main__":
    main()
