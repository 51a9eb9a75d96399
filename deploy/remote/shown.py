"""Text that others named or sent, as a terminal may be given it: the scripts' twin of base/text/shown.h."""
import unicodedata

TURNING = "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def _shown(character):
    if character in TURNING or unicodedata.category(character) in ("Cc", "Cs"):
        return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))
    return character


def shown(text):
    """The text; control characters and what was no UTF-8 become visible, line ends stay."""
    return "".join(character if character == "\n" else _shown(character) for character in str(text))
