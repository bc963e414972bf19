"""Finds agreed words, such as "task complete", in what was transcribed."""

import unicodedata


def is_heard(keyword: str, words: str) -> bool:
    """Whether ``keyword`` was said in ``words``, whatever the case, pauses and punctuation."""
    return f" {_plain(keyword)} " in f" {_plain(words)} " if _plain(keyword) else False


def _plain(text: str) -> str:
    """Letters and digits in words with one space between; an apostrophe within a word is nothing,
    since transcribers write one or not."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("’", "")
    return " ".join("".join(s if s.isalnum() else " " for s in folded).split())
