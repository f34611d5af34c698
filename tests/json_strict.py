#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What Python's own JSON reader makes of the JSON writer's values. Run as: json_strict.py PATH_TO_JSON_WRITE"""
import json
import math
import random
import struct
import subprocess
import sys

SEED = 7


def expect(text):
    """Each byte that is no part of well-formed UTF-8 becomes U+FFFD. Python's decoder takes some of them together."""
    out, at = [], 0
    while at < len(text):
        for n in (1, 2, 3, 4):
            try:
                out.append(text[at:at + n].decode())
                at += n
                break
            except UnicodeDecodeError:
                continue
        else:
            out.append("\ufffd")
            at += 1
    return "".join(out)


def refuse(constant):
    raise ValueError(constant)


def ask(binary, questions):
    """The answers, as they were written."""
    data = b"".join(kind + struct.pack("=I", len(rest)) + rest for kind, rest in questions)
    got = subprocess.run([binary], input=data, stdout=subprocess.PIPE, check=True, timeout=100).stdout
    lines = got.split(b"\n")
    assert lines.pop() == b"" and len(lines) == len(questions), "as many answers as questions"
    return lines


def strings(binary, texts):
    for text, line in zip(texts, ask(binary, [(b"s", t) for t in texts])):
        got = json.loads(line.decode("utf-8", "strict"), strict=True)
        assert got == expect(text), (text, line)


def every_string_of_one_byte(binary):
    strings(binary, [bytes([a]) for a in range(256)] + [b""])


def every_string_of_two_bytes(binary):
    strings(binary, [bytes([a, b]) for a in range(256) for b in range(256)])


def random_strings(binary):
    """Of bytes that make characters more often than chance would."""
    rand = random.Random(SEED)
    pools = [bytes(range(256)), b"\x00\x1f\"\\/\x7fab",
        b"\xc2\xdf\xe0\xed\xef\xf0\xf4\x80\x8f\x90\x9f\xa0\xbf\xc0\xf5a\""]
    strings(binary, [bytes(rand.choices(rand.choice(pools), k=rand.randrange(3, 24))) for _ in range(60000)])


def long_string(binary):
    strings(binary, [bytes(random.Random(SEED).randbytes(65536))])


def check_doubles(binary, values):
    for v, line in zip(values, ask(binary, [(b"d", struct.pack("=d", v)) for v in values])):
        text = line.decode()
        json.loads(text, parse_constant=refuse)
        assert struct.pack("=d", float(text)) == struct.pack("=d", v), (v, text)
        assert len(text) <= len(repr(v)), (repr(v), text)


def powers(binary):
    two = [math.ldexp(1.0, e) for e in range(-1074, 1024)]
    near = [math.nextafter(v, to) for v in two for to in (0, math.inf) if v < 2.0 ** 1023]
    ten = [float(f"{d}e{e}") for e in range(-323, 309) for d in (1, 1.1, 9.999)  if e < 308 or d < 1.5]
    check_doubles(binary, two + near + ten + [-v for v in two] + [0.0, -0.0, 2.0 ** 53 + 2, sys.float_info.max])


def random_doubles(binary):
    rand = random.Random(SEED)
    values = [struct.unpack("=d", rand.randbytes(8))[0] for _ in range(60000)]
    values += [rand.randrange(10 ** rand.randrange(1, 18)) / 10 ** rand.randrange(0, 12) for _ in range(40000)]
    values += [math.ldexp(rand.randrange(1, 1 << 20), -1074) for _ in range(2000)]
    check_doubles(binary, [v for v in values if math.isfinite(v)])


def no_number(binary):
    for line in ask(binary, [(b"d", struct.pack("=d", v)) for v in (math.nan, -math.nan, math.inf, -math.inf)]):
        assert line == b"null", line


def integers(binary):
    rand = random.Random(SEED)
    values = [(1 << n) + d for n in range(64) for d in (-1, 0, 1)] + [2 ** 64 - 1, 10 ** 19, 10 ** 19 - 1]
    values += [rand.randrange(1 << rand.randrange(1, 65)) for _ in range(40000)]
    for v, line in zip(values, ask(binary, [(b"u", struct.pack("=Q", v)) for v in values])):
        assert line == str(v).encode(), (v, line)


TESTS = [every_string_of_one_byte, every_string_of_two_bytes, random_strings, long_string, powers, random_doubles,
         no_number, integers]


def main():
    failed = 0
    for function in TESTS:
        try:
            function(sys.argv[1])
        except (AssertionError, ValueError, subprocess.SubprocessError) as error:
            print(f"{function.__name__}: {error!r}")
            failed += 1
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
