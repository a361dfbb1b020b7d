"""The field's words, once: identifiers that were given up do not come back, and spelling is American."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable
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
def texts() -> dict[Path, str]:
    """The files of the package and the tests; not programs that use other libraries, whose names are theirs."""
    return {
        path: path.read_text()
        for path in sorted([*(ROOT / "xlab").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
        if path.parent != ROOT / "tests" / "jax_alias" / "programs"
    }


@cache
def words(path: Path) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", texts()[path]))


def identifiers(asked: Callable[[str], object]) -> dict[str, list[str]]:
    """Where each identifier that is asked for stands, as `file:line`, a few of each; a file that has no such word is not parsed."""
    found: dict[str, list[str]] = {}
    for path, text in texts().items():
        if not any(map(asked, words(path))):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and asked(token.string):
                places = found.setdefault(token.string, [])
                if len(places) < 3:
                    places.append(f"{path.relative_to(ROOT)}:{token.start[0]}")
    return found


def test_identifiers_are_found_but_not_what_is_written_of_them():
    assert list(identifiers("identifiers".__eq__)) == ["identifiers"]
    assert not identifiers("zqz".__eq__)  # here it stands in a text


def test_words_that_were_given_up_stay_away():
    given_up = table("Words that were given up")
    assert len(given_up) > 50
    faults = [
        f"{old}: say {given_up[old]} ({', '.join(places)})"
        for old, places in identifiers(given_up.__contains__).items()
    ]
    assert not faults, "\n".join(faults)


def test_the_glossary_speaks_of_what_there_is():
    glossary = set(table("Glossary"))
    assert len(glossary) > 30
    said = set().union(*(words(path) for path in texts() if path.is_relative_to(ROOT / "xlab")))
    assert not glossary - said


TWICE = {
    "MemorySpace": "of arrays, of kernels, of TPU kernels: the field has all three",
    "CompilerParams": "the one of TPU kernels is a subclass",
    "InterpretParams": "the one of TPU kernels is a subclass",
    "Finding": "what a program could do otherwise, a record; in experimental.key_reuse a key used twice",
    "Pass": "of source maps, where the field calls it so; a record of a compiler's pass",
    "Machine": "what runs a kernel step by step; a record of hardware",
}


def test_a_name_stands_for_one_class():
    places: dict[str, list[str]] = {}
    for path, text in texts().items():
        if path.is_relative_to(ROOT / "xlab"):
            for name in re.findall(r"^class ([A-Z]\w*)", text, flags=re.M):
                places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 500
    assert {name: where for name, where in places.items() if len(where) > 1}.keys() == TWICE.keys()


# The stems that differ, for identifiers; prose may say what it likes.
BRITISH = re.compile(
    r"(colour|centre|neighbour|behaviour|favour|initialis|optimis|normalis|serialis|materialis|summaris|specialis"
    r"|generalis|linearis|quantis|vectoris|parallelis|synchronis|organis|recognis)"
)


def test_identifiers_are_spelled_as_in_america():
    assert not identifiers(lambda name: BRITISH.search(name.lower()))


HOST = {"ndarray", "generic", "bool", "int", "float", "complex"}  # of NumPy and of Python


def lists_of_host_values(text: str) -> list[int]:
    """The lines of tuples, lists and sets that name every class of values on no device."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Tuple, ast.List, ast.Set))
        and {getattr(e, "attr", getattr(e, "id", "")) for e in node.elts} >= HOST
    ]


def test_classes_of_host_values_are_listed_in_one_place():
    assert lists_of_host_values("isinstance(x, (A, np.generic, bool, int, float, complex, np.ndarray))") == [1]  # fmt: skip
    assert not lists_of_host_values("(bool, int, float, complex, np.generic)")
    places = [
        str(path.relative_to(ROOT))
        for path, text in texts().items()
        if path.is_relative_to(ROOT / "xlab") and {"ndarray", "generic", "complex"} <= words(path)
        for _ in lists_of_host_values(text)
    ]
    assert places == ["xlab/core/avals.py"], "use HOST_VALUES of xlab.core.avals"
