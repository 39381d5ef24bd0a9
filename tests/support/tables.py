"""The shared tables: ids that broke other libraries, and what is no id."""

HOSTILE_IDS = (
    *("foo", "Foo", "FOO", "foobar", "foo:1", "foo/1", "foo*", "foo ", " foo", "foo\n"),
    *("caf\u00e9", "cafe\u0301", "stra\u00dfe", "strasse", "\u0130", "i", "I", "\u0131"),
    *("a:b", "a/b", "a%2Fb", "a%2fb", "a\\b", "a//b", "/a", "a/", "a|b", "a,b", "a.b", "a_b"),
    *("..", ".", "../x", "...", "*", "?", "%", "_", "a%", "a?", "[a]", "~", "#", "&"),
    *("{}", "a{b}", "{a}b", "}{", "$1", ":name", "?1", "@x", "--", ";", "'", '"', "`", "''"),
    *(" ", "  ", "\t", "\n", "\r\n", "\x01", "\x7f", "\u200b", "\u2028", "\ufeff", "\ufffd"),
    *("\U0001f600", "\U0001f468\u200d\U0001f469", "0", "00", "1", "01", "-1", "None", "null"),
    *("x'); DROP TABLE durably_logs; --", "' OR 1=1 --", "C:x", "CON", "a" * 255),
    *("a" * 256, "a" * 255 + "b", "\u00e9" * 128, "\U0001f600" * 64, "\U0010ffff" * 64),
)

REFUSED_IDS = {
    "empty": "",
    "257 bytes": "a" * 257,
    "257 bytes of 129 characters": "\u00e9" * 128 + "a",
    "260 bytes of emoji": "\U0001f600" * 65,
    "NUL": "a\x00b",
    "NUL alone": "\x00",
    "lone high surrogate": "a\ud800",
    "lone low surrogate": "\udc97",
    "surrogates in a pair": "\ud83d\ude00",
    "None": None,
    "int": 7,
    "zero": 0,
    "bool": False,
    "bytes": b"a",
    "list": ["a"],
}
