"""What may not happen whatever is asked: a crash, a hang, a leak, a wrong answer from two threads."""
