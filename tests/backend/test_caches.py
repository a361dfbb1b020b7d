"""The cache with a limit."""

import threading
import time

import pytest

from xlab.backend.caches import Latest, drop_oldest


def test_the_latest_stay_in_the_order_they_were_set():
    known = Latest(3)
    for key in "abcad":
        known[key] = key.upper()
    assert list(known.items()) == [("c", "C"), ("a", "A"), ("d", "D")]
    assert known.get("b") is None and len(known) == 3


def test_what_is_asked_for_again_is_the_latest():
    known = Latest(2)
    first = known.get_or_make("a", object)
    known.get_or_make("b", object)
    assert known.get_or_make("a", object) is first
    known.get_or_make("c", object)
    assert list(known) == ["a", "c"]


def test_what_cannot_be_made_is_not_remembered():
    known = Latest(2)
    with pytest.raises(ZeroDivisionError):
        known.get_or_make("a", lambda: 1 / 0)
    assert not known and known.get_or_make("a", lambda: 1) == 1


def test_threads_that_ask_for_one_key_get_one_object():
    known, found, start = Latest(4), [], threading.Barrier(8)

    def make():
        time.sleep(0.01)
        return object()

    def ask():
        start.wait()
        found.append(known.get_or_make("a", make))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1


def test_many_threads_keep_to_the_limit():
    known, faults = Latest(16), []

    def write(first):
        try:
            for k in range(first, first + 2000):
                known[k % 97] = k
                known.get_or_make(k % 89, lambda k=k: k)
        except Exception as fault:  # seen by the thread that asserts
            faults.append(fault)

    threads = [threading.Thread(target=write, args=(n * 31,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and len(known) == 16


def test_a_plain_dictionary_is_trimmed():
    known = dict.fromkeys("abcd")
    drop_oldest(known, 9)
    assert len(known) == 4
    drop_oldest(known, 2)
    assert list(known) == ["c", "d"]
