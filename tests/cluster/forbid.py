#!/usr/bin/env python3
"""forbid.py ERRNO NUMBER[,NUMBER...] COMMAND...: runs the command in a process for which these system calls fail with
that error, by a seccomp filter."""
import ctypes
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
BPF_LOAD_WORD, BPF_JUMP_EQUAL, BPF_RETURN = 0x20, 0x15, 0x06
RETURN_ALLOW, RETURN_ERRNO = 0x7fff0000, 0x00050000


def instruction(code, jump_true, jump_false, value):
    return struct.pack("HBBI", code, jump_true, jump_false, value)


def main():
    error, numbers, command = int(sys.argv[1]), [int(word) for word in sys.argv[2].split(",")], sys.argv[3:]
    code = instruction(BPF_LOAD_WORD, 0, 0, 0)
    for i, number in enumerate(numbers):
        code += instruction(BPF_JUMP_EQUAL, len(numbers) - i, 0, number)
    code += instruction(BPF_RETURN, 0, 0, RETURN_ALLOW) + instruction(BPF_RETURN, 0, 0, RETURN_ERRNO | error)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        sys.exit("forbid.py: prctl: " + os.strerror(ctypes.get_errno()))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
