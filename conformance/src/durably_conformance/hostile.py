"""Ids that have fooled other stores, and what no store may take for an id."""

__all__ = ["HOSTILE_IDS", "REFUSED_IDS"]

HOSTILE_IDS: tuple[str, ...] = (
    # spelled alike
    *("foo", "Foo", "FOO", "foobar", "foo:1", "foo/1", "foo*", "foo ", " foo", "foo\n"),
    *("caf\u00e9", "cafe\u0301", "stra\u00dfe", "strasse", "i", "I", "\u0130", "\u0131"),
    *("k", "\u212a", "1", "01", "None", "null"),
    # separators, paths and escapes
    *("a:b", "a/b", "a%2Fb", "a%2fb", "a\\b", "a//b", "/a", "a/", "a|b", "a.b", "a_b", "a-b"),
    *("..", ".", "../x", "C:x", "CON", "#", "&", "a+b", "a b"),
    # patterns, placeholders and quotes
    *("*", "?", "%", "_", "a%", "[a]", "{}", "a{b}", "{a}b", "$1", ":name", "@x", "--"),
    *("'", '"', "`", "x'); DROP TABLE runs; --", "' OR 1=1 --"),
    # hardly visible, or outside the usual plane
    *(" ", "\t", "\r\n", "\x01", "\x7f", "\u200b", "\u2028", "\ufeff", "\ufffd", "\U0001f600"),
    # as long as an id may be
    *("a" * 255, "a" * 256, "a" * 255 + "b", "\u00e9" * 128, "\U0010ffff" * 64),
)
"""All different, all legal: 1 to 256 bytes of text without NUL and lone surrogates."""

REFUSED_IDS: tuple[object, ...] = (
    *("", "a" * 257, "\u00e9" * 128 + "a", "a\x00b", "\x00"),
    *("a\ud800", "\udc97", "\ud83d\ude00"),
    *(None, 7, 0, False, b"a", ["a"]),
)
"""No ids, though some are true, some are false and some print like one."""
