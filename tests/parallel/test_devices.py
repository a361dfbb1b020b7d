"""Programs on several devices give what the reference gives: values, how they lie, texts of rules and classes of errors."""

import pytest

from tests.parallel import device_cases, program_cases
from tests.reference.records import on_reference


@pytest.mark.reference
def test_programs_on_devices_are_those_of_the_reference():
    reference = on_reference(program_cases)
    ours = device_cases.records("xlab")
    theirs = reference()
    assert theirs.keys() == ours.keys()
    assert {name: theirs[name] for name in ours} == ours
