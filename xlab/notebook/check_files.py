"""Findings as a test: text, an exit code, and files that a code host reads to show each at its line (JUnit XML, SARIF)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from xlab.observe.records.finding import Finding, finding_line

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _path(f: Finding) -> str:
    """The file as a code host knows it: from the folder of the run, with slashes."""
    if f.source is None:
        return ""
    try:
        return Path(os.path.relpath(f.source.file)).as_posix()
    except ValueError:  # on another drive
        return Path(f.source.file).as_posix()


def sarif(found: Sequence[Finding]) -> dict[str, Any]:
    """The findings as SARIF 2.1.0 (OASIS): a rule for each kind, a result for each finding.

    >>> sarif([Finding("host transfer", "it waits")])["runs"][0]["results"][0]["ruleId"]
    'host-transfer'
    """
    rule = lambda kind: kind.replace(" ", "-")
    kinds = list(dict.fromkeys(f.kind for f in found))
    results = []
    for f in found:
        result: dict[str, Any] = {
            "ruleId": rule(f.kind),
            "level": "warning",
            "message": {"text": finding_line(f)},
        }
        if f.outcome:
            result["properties"] = {
                "change": f.change,
                "outcome": [
                    {"name": a.name, "before": a.before, "after": a.after, "unit": a.unit}
                    for a in f.outcome
                ],
            }
        if f.source is not None:
            region: dict[str, int] = {"startLine": max(1, f.source.line)}
            if f.source.end_column > f.source.column:
                region |= {
                    "startColumn": f.source.column + 1,
                    "endColumn": f.source.end_column + 1,
                }
            result["locations"] = [
                {"physicalLocation": {"artifactLocation": {"uri": _path(f)}, "region": region}}
            ]
        results.append(result)
    driver = {
        "name": "xlab",
        "rules": [{"id": rule(k), "shortDescription": {"text": k}} for k in kinds],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def junit(name: str, found: Sequence[Finding]) -> str:
    """The findings as JUnit XML: a failed test for each, or one that passed where there is none.

    >>> print(junit("step", []))
    <?xml version="1.0" encoding="utf-8"?>
    <testsuites><testsuite name="xlab report --check" tests="1" failures="0">
    <testcase classname="step" name="no findings"/>
    </testsuite></testsuites>
    """
    cases = []
    for f in found:
        at = f" file={_quoted(_path(f))} line={_quoted(str(f.source.line))}" if f.source else ""
        cases.append(
            f"<testcase classname={_quoted(name)} name={_quoted(f'{f.kind}: {f.text}')}{at}>"
            f"{_properties(f)}<failure message={_quoted(finding_line(f))}/></testcase>"
        )
    cases = cases or [f'<testcase classname={_quoted(name)} name="no findings"/>']
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuites><testsuite name="xlab report --check" tests="{len(cases)}" failures="{len(found)}">\n'
        + "\n".join(cases)
        + "\n</testsuite></testsuites>"
    )


def _properties(f: Finding) -> str:
    """The amounts of a finding's change, before and after."""
    rows = [
        f"<property name={_quoted(f'{a.name}, {when}')} value={_quoted(f'{n:.12g}')}/>"
        for a in f.outcome
        for when, n in (("before", a.before), ("after", a.after))
    ]
    return f"<properties>{''.join(rows)}</properties>" if rows else ""


def _quoted(text: str) -> str:
    # What XML cannot hold at all is left out.
    kept = "".join(c for c in text if c in "\t\n\r" or ord(c) >= 32)
    return quoteattr(kept, {"\n": "&#10;"})


def write(path: str, name: str, found: Sequence[Finding]) -> None:
    """Writes the findings in the form that a file's name says: `.sarif` or `.json`, or `.xml`."""
    if path.endswith(".xml"):
        text = junit(name, found) + "\n"
    else:
        text = json.dumps(sarif(found), indent=1)
    Path(path).write_text(text, encoding="utf-8")
