"""What took how long? Phases of a recording, timings, the profile of a run, and why programs were compiled."""
