"""Programs of users are run by `test_programs.py`, and are no tests: they need libraries that may not be here."""

collect_ignore = ["programs"]
