"""Proof that both ends of a connection know the same key, before the first message.

The listener sends a random number; the other side answers with its own and a keyed hash over
both; the listener answers with another. Neither can replay what it has heard, and a stranger who
connects and stays silent is dropped after ``HANDSHAKE_S``.
"""

import hashlib
import hmac
import secrets
from typing import Final

from firsthand.children.road import Road

HANDSHAKE_S: Final = 2.0
_HELLO = b"firsthand-1 "
_NONCE = 32
_PROOF = hashlib.sha256().digest_size


def _proof(key: bytes, side: bytes, *nonces: bytes) -> bytes:
    return hmac.new(key, side + b"".join(nonces), hashlib.sha256).digest()


def _read(road: Road, size: int, timeout_s: float) -> bytes:
    if not road.poll(timeout_s):
        raise OSError("no answer in the handshake")
    answer = road.recv_bytes(size)
    if len(answer) != size:
        raise OSError("wrong answer in the handshake")
    return answer


def greet(road: Road, key: bytes) -> bool:
    """The listener's part: whether the caller knows ``key``."""
    try:
        mine = secrets.token_bytes(_NONCE)
        road.send_bytes(_HELLO + mine)
        answer = _read(road, _NONCE + _PROOF, HANDSHAKE_S)
        theirs, proof = answer[:_NONCE], answer[_NONCE:]
        if not hmac.compare_digest(proof, _proof(key, b"caller", mine, theirs)):
            return False
        road.send_bytes(_proof(key, b"listener", mine, theirs))
    except (OSError, EOFError):
        return False
    return True


def introduce(road: Road, key: bytes, timeout_s: float) -> bool:
    """The caller's part: whether the listener takes ``key`` and knows it itself."""
    try:
        hello = _read(road, len(_HELLO) + _NONCE, timeout_s)
        if not hello.startswith(_HELLO):
            return False
        theirs, mine = hello[len(_HELLO) :], secrets.token_bytes(_NONCE)
        road.send_bytes(mine + _proof(key, b"caller", theirs, mine))
        answer = _read(road, _PROOF, timeout_s)
    except (OSError, EOFError):
        return False
    return hmac.compare_digest(answer, _proof(key, b"listener", theirs, mine))
