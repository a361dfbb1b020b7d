"""What took how long? Phases of a recording, timings, the profile of a run, and why programs were compiled.

`phases.py` (phases, cold and warm times), `log.py` (lines of the log, by phase), `trace_events.py` (phases for Perfetto; of several processes in `process_tracks.py`), `processes.py` (one process's part of a run of several), `ledger.py` (why
programs were compiled), `costs.py`, `runnable.py` and `profile.py` (a measured run, by equation; of what can run), `warm_runs.py` (what a run takes), `rooflines.py` (arithmetic and bytes of a program before it is compiled).
"""
