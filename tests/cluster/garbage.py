#!/usr/bin/env python3
"""Talks nonsense to TCP ports: garbage.py SECONDS SEED HOST:PORT... Ends with 1 when nobody could be reached."""
import random
import socket
import struct
import sys
import time


def nonsense(rng):
    """Something that no peer says: noise, lengths that promise too much, beginnings of real messages."""
    kind = rng.randrange(9)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 4096))
    if kind == 1:
        length = rng.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
        return struct.pack("<I", length) + rng.randbytes(rng.randrange(64))
    if kind == 2:
        return struct.pack(">I", rng.choice([0xFFFFFFFF, 1 << 20, 5])) + rng.randbytes(rng.randrange(64))
    if kind == 3:
        return b"GET / HTTP/1.1\r\nHost: millrace\r\n\r\n"
    if kind == 4:  # the preamble of a worker, of which parts are right
        preamble = struct.pack("<IIQ16sII", rng.choice([0x3150524D, 0]), rng.choice([1, 2]), rng.randrange(100),
                               rng.randbytes(16), rng.randrange(4), rng.randrange(4))
        return preamble[:rng.choice([3, 16, 39, 40])]
    if kind == 5:
        return b""
    if kind == 6:
        return b"\0" * rng.randrange(1, 100000)
    if kind == 7:  # messages of the proof of a key, of which parts are right
        proof = b"".join(struct.pack("<IBBBB", 0x314B524D, rng.choice([1, 1, 2]), rng.randrange(6), rng.randrange(4),
                                     rng.randrange(9)) + rng.randbytes(64) for _ in range(3))
        return proof[:rng.choice([3, 5, 71, 72, 73, 144, 216])]
    return b"\xff" * rng.randrange(1, 100000)


def talk(rng, place):
    host, port = place.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=2) as peer:
        peer.settimeout(rng.choice([0.005, 0.05]))
        try:
            peer.sendall(nonsense(rng))
            how = rng.randrange(4)
            if how == 0:
                peer.shutdown(socket.SHUT_WR)
                peer.recv(1)
            elif how == 1:
                peer.recv(65536)
            elif how == 2:  # a reset
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass  # thrown out, as is right


def main():
    rng = random.Random(int(sys.argv[2]))
    end = time.monotonic() + float(sys.argv[1])
    reached = {place: 0 for place in sys.argv[3:]}
    silent = []  # some say nothing and stay
    while time.monotonic() < end:
        place = rng.choice(sys.argv[3:])
        try:
            talk(rng, place)
            reached[place] += 1
            if len(silent) < 40:
                silent.append(socket.create_connection(tuple(place.rsplit(":", 1)), timeout=2))
        except OSError as error:
            print(place, error)
            time.sleep(0.01)
    print(reached)
    return 0 if all(reached.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
