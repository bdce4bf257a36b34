"""Hashes that chain the records and attempts of a run, so that every changed, dropped or moved line is detected."""

import hashlib
from binascii import hexlify
from collections.abc import Iterable, Mapping

import msgspec

from assay.core.canonical import canonical_json, sha256_hex

_CHAIN_OPENING = b',"chain_sha256":"'
_CHAIN_TAIL = len(_CHAIN_OPENING) + 64 + len(b'"}')
_CHAIN_START = bytes(32)


class AttemptChain:
    """Hash chain over attempt_logs.jsonl: each line carries the hash of the line before it and of its own bytes.

    `chain_sha256` is a line's last member. It is SHA-256 of the previous line's hash (32 raw bytes, zero for the first line)
    and the line's bytes without that member and without its newline.
    """

    def __init__(self) -> None:
        self._link = _CHAIN_START

    def line(self, body: bytes) -> bytes:
        """Append the chain hash as one more member to a JSON object that has members; without a newline."""
        return self.lines((body,))[:-1]

    def lines(self, bodies: Iterable[bytes]) -> bytes:
        """Append the chain hash and a newline to each JSON object."""
        link = self._link
        pieces: list[bytes] = []
        for body in bodies:
            link = hashlib.sha256(link + body).digest()
            pieces += (body[:-1], _CHAIN_OPENING, hexlify(link), b'"}\n')
        self._link = link
        return b"".join(pieces)

    def follows(self, line: bytes) -> bool:
        """Tell whether the line continues the chain."""
        return self.line(line[:-_CHAIN_TAIL] + b"}") == line

    def hexdigest(self) -> str:
        """Return the hash of the last line, which covers all lines."""
        return self._link.hex()


class MerkleTree:
    """Merkle tree hash of RFC 6962 over leaves added one by one; keeps one hash per level."""

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []
        """Height and hash of the complete subtrees so far, the highest first."""

    def add(self, leaf: bytes) -> None:
        """Add the next leaf."""
        height, node = 0, hashlib.sha256(b"\x00" + leaf).digest()
        while self._peaks and self._peaks[-1][0] == height:
            node = hashlib.sha256(b"\x01" + self._peaks.pop()[1] + node).digest()
            height += 1
        self._peaks.append((height, node))

    def hexdigest(self) -> str:
        """Return the root over the leaves so far."""
        if not self._peaks:
            return hashlib.sha256(b"").hexdigest()
        root = self._peaks[-1][1]
        for _, peak in reversed(self._peaks[:-1]):
            root = hashlib.sha256(b"\x01" + peak + root).digest()
        return root.hex()


def merkle_root(leaves: Iterable[bytes]) -> str:
    """Compute the Merkle tree hash (RFC 6962, 2.1) of all leaves; a record's leaf is its `record_sha256` as 32 bytes."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    return tree.hexdigest()


def self_hashed(document: Mapping[str, object], member: str) -> bytes:
    """Return the document as indented JSON with one more member: the SHA-256 of its canonical JSON without that member."""
    digest = sha256_hex(canonical_json(document))
    return msgspec.json.format(canonical_json({**document, member: digest}), indent=2) + b"\n"


def has_own_hash(text: bytes, member: str) -> bool:
    """Tell whether the bytes are exactly what self_hashed made of their content."""
    try:
        document = msgspec.json.decode(text)
        return isinstance(document, dict) and document.pop(member, None) is not None and self_hashed(document, member) == text
    except (msgspec.DecodeError, ValueError):
        return False
