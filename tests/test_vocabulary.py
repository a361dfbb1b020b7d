"""The field's words, once: identifiers that were given up do not come back, and spelling is American."""

from __future__ import annotations

import io
import re
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"


def table(title: str) -> dict[str, str]:
    """The two columns of the table under a title: what is written between backquotes."""
    section = re.split(rf"^#+ {re.escape(title)}$", CONTRIBUTING.read_text(), flags=re.M)[1].split(
        "\n#"
    )[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    return {
        word: right.strip("`") for left, right, *_ in rows for word in re.findall(r"`(\w+)`", left)
    }


@cache
def identifiers() -> dict[str, list[str]]:
    """Where each identifier of the package and the tests stands, as `file:line`, a few of each.

    Not of programs that use other libraries, whose names are theirs.
    """
    found: dict[str, list[str]] = {}
    for path in sorted([*(ROOT / "xlab").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        if path.parent == ROOT / "tests" / "jax_alias" / "programs":
            continue
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.NAME:
                places = found.setdefault(token.string, [])
                if len(places) < 3:
                    places.append(f"{path.relative_to(ROOT)}:{token.start[0]}")
    return found


def test_words_that_were_given_up_stay_away():
    given_up = table("Words that were given up")
    assert len(given_up) > 50
    faults = [
        f"{old}: say {new} ({', '.join(identifiers()[old])})"
        for old, new in given_up.items()
        if old in identifiers()
    ]
    assert not faults, "\n".join(faults)


def test_the_glossary_speaks_of_what_there_is():
    words = table("Glossary")
    assert len(words) > 30
    text = "\n".join(path.read_text() for path in (ROOT / "xlab").rglob("*.py"))
    assert not [word for word in words if not re.search(rf"\b{word}\b", text)]


# The stems that differ, for identifiers; prose may say what it likes.
BRITISH = re.compile(
    r"(colour|centre|neighbour|behaviour|favour|initialis|optimis|normalis|serialis|materialis|summaris|specialis"
    r"|generalis|linearis|quantis|vectoris|parallelis|synchronis|organis|recognis)"
)


def test_identifiers_are_spelled_as_in_america():
    assert not {
        name: where for name, where in identifiers().items() if BRITISH.search(name.lower())
    }
