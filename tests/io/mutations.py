"""Seeded damage to text files: what editors, transfers and scripts do to data."""

SVMLIGHT = b"""\
# a comment
-1 1:0.5 3:-2.25e-1 7:1
+1 2:1 3:0.125
-1 1:3e2
1 4:-0.0 5:1e-3 6:7 # note
+1 1:0.25 7:2
-1 2:-1 6:0.5
"""
TABLE = b'''\
length,width,"kind, or species",class
5.1,3.5,1e0,setosa
4.9,"3.0",2,setosa
6.2,2.9,-0.5,"""versi"" color"
5.9,3.2,0,virginica
6.3,2.5,+7,virginica
5.0,3.4,1.5E-2,setosa
'''
_PIECES = [
    b"\n",
    b"\r\n",
    b",",
    b'"',
    b":",
    b" ",
    b"\t",
    b"#",
    b"nan",
    b"inf",
    b"1e999",
    b"-",
    b"\0",
    b"\xff\xfe",
    "é".encode(),
    b"0:1",
    b"1:1",
    b"99999999999:1",
    b"abc",
    b"e",
    b".",
    b";",
    b"",
]


def mutate(text, rng):
    """Return `text` after one to six random edits."""
    for _ in range(rng.integers(1, 7)):
        kind = rng.integers(0, 6)
        a, b = sorted(rng.integers(0, len(text) + 1, 2))
        if kind == 0:  # insert
            text = text[:a] + _PIECES[rng.integers(len(_PIECES))] + text[a:]
        elif kind == 1:  # replace a few bytes
            text = (
                text[:a] + _PIECES[rng.integers(len(_PIECES))] + text[a + int(rng.integers(1, 4)) :]
            )
        elif kind == 2:  # cut short
            text = text[:b] if rng.random() < 0.3 else text[:a] + text[a + 1 :]
        elif kind == 3:  # repeat a piece
            text = text[:a] + text[a : min(b, a + 30)] * 2 + text[a:]
        elif kind == 4 and text:  # flip a bit
            flipped = bytearray(text)
            flipped[min(a, len(text) - 1)] ^= 1 << int(rng.integers(8))
            text = bytes(flipped)
        else:  # exchange two pieces
            text = text[b:] + text[:b]
    return text
