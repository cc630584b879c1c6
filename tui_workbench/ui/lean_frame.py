"""What the terminal shows, cell by cell, and the shortest way we know to make it show something else.

The invariants: what `take` has given, read by a terminal, makes it show what was drawn; a cell of whose content nobody
can be sure is `UNKNOWN`, which equals nothing that is drawn; a blank cell is its ground alone, because nobody sees the
colour of a letter that is not there. Control characters in what is drawn never come out.
"""

from __future__ import annotations

import re
from operator import and_, eq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN = "\0"
"""Stands for the content of a cell that must be written again."""

REST = "\x01"
"""Stands for all cells but the first of a character that is wider than one."""

GAP = 6
"""Cells that are written again rather than skipped: to move the cursor costs as much."""

LONGEST_WORD = 16
"""Cells of a word that is written whole when a part of it changed, so that who reads along reads words."""

SHORT = 40
"""Cells of a change that is written as one: to look for what stayed in its middle costs more than it saves."""

BLANKS = 12
"""Blanks from which on erasing them is shorter than writing them."""

MOST_TRANSITIONS = 10_000
"""Ways from look to look that are remembered; far more than any screen has."""

FIRST_CLUSTER = 0xF0000
"""From here on, where Unicode leaves places for private use, characters stand for what one code point cannot hold."""

LAST_CLUSTER = 0x10FFFD

_SPANS = re.compile(rf"\x00+(?:\x01{{1,{GAP}}}\x00+)*".encode())
_RUNS = re.compile(r"(.)\1*", re.DOTALL)
_LONG_BLANKS = re.compile(f"( {{{BLANKS},}})")
_STAND_INS = re.compile(f"[\0\x01{chr(FIRST_CLUSTER)}-{chr(LAST_CLUSTER)}]")

_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""What ends an attribute on every terminal; the others are ended by a reset."""

_SEEN_ON_BLANKS = frozenset({"4", "5", "6", "7", "9", "21", "51", "52", "53"})
"""Attributes that are seen where no letter is: lines, boxes, exchanged colours."""


class Look:
    """How a cell looks: attributes, foreground and background as SGR parameters, "" being the terminal's own colour."""

    __slots__ = ("attributes", "background", "codes", "foreground", "ground", "link")

    def __init__(self, codes: str, link: str = "") -> None:
        attributes: list[str] = []
        self.codes, self.link = codes, link
        self.foreground = self.background = ""
        parts = codes.split(";") if codes else []
        while parts:
            code = parts.pop(0)
            color = code
            if code in ("38", "48"):
                length = 2 if parts[0] == "5" else 4
                color = ";".join([code, *parts[:length]])
                del parts[:length]
            if code == "38" or 30 <= int(code) <= 37 or 90 <= int(code) <= 97:
                self.foreground = color
            elif code == "48" or 40 <= int(code) <= 47 or 100 <= int(code) <= 107:
                self.background = color
            elif code not in ("39", "49"):
                attributes.append(code)
        self.attributes = frozenset(attributes)
        is_plain = not link and not self.attributes & _SEEN_ON_BLANKS
        self.ground = self.background if is_plain else None
        """What a blank shows, when that is its background alone."""


def transition(old: Look | None, new: Look) -> str:
    """The control sequence after which letters look like `new`; `old` is None when nobody knows how they look now."""
    whole = f"\x1b[0;{new.codes}m" if new.codes else "\x1b[m"
    link = f"\x1b]8;;{new.link}\x1b\\" if new.link != (old.link if old is not None else "") else ""
    if old is None:
        return link + whole
    ended = old.attributes - new.attributes
    if not ended <= _ENDS.keys():
        return link + whole
    ends = {_ENDS[code] for code in ended}
    begun = {code for code in new.attributes if code not in old.attributes or _ENDS.get(code) in ends}
    parts = [*sorted(ends), *sorted(begun)]
    if new.foreground != old.foreground:
        parts.append(new.foreground or "39")
    if new.background != old.background:
        parts.append(new.background or "49")
    change = f"\x1b[{';'.join(parts)}m" if parts else ""
    return link + min(change, whole, key=len)


class LeanFrame:
    """A frame to draw into with `put`; what the terminal does not show of it yet comes from `take`, as text for it.

    `width_of` gives the cells of a text. `erases` says that the terminal erases to the background that is set.
    """

    def __init__(self, width_of: Callable[[str], int], *, erases: bool = True) -> None:
        self._width_of = width_of
        self._erases = erases
        self._narrow: set[str] = set()
        self._clusters: dict[str, str] = {}
        self._cluster_texts: list[str] = []
        self._looks: list[Look] = []
        self._faces: dict[tuple[str, str], str] = {}
        self._grounds: dict[str, str] = {}
        self._transitions: dict[tuple[str, str], str] = {}
        self.resize(0, 0)

    # --- Drawing

    def resize(self, width: int, height: int) -> None:
        """Begin anew at this size, with nothing drawn and nothing known of the terminal."""
        self.width, self.height = width, height
        self._drawn = [(UNKNOWN * width, UNKNOWN * width)] * height
        self.forget()

    def forget(self) -> None:
        """The terminal may show anything now: all that is drawn is written again by the next `take`."""
        self._shown = [(UNKNOWN * self.width, UNKNOWN * self.width)] * self.height
        self._changed = set(range(self.height))
        self._pen = ""
        self._place: tuple[int, int] | None = None

    def face(self, codes: str, link: str = "") -> str:
        """The character that stands for a look, given as SGR parameters."""
        found = self._faces.get((codes, link))
        if found is None:
            look = Look(codes, link)
            self._looks.append(look)
            found = self._faces[codes, link] = chr(len(self._looks))
            # All looks with one ground share the first of them for their blanks.
            self._grounds[found] = found if look.ground is None else self._ground(look.ground)
        return found

    def _ground(self, background: str) -> str:
        if (background, "") not in self._faces:
            self.face(background)
        return self._faces[background, ""]

    def put(self, x: int, y: int, pieces: list[tuple[str, str]]) -> None:
        """Draw texts, each with its face, one behind the other from this cell on; what is outside is left out."""
        if not 0 <= y < self.height:
            return
        texts, faces = [], []
        for text, face in pieces:
            cells = self.cells(text)
            texts.append(cells)
            faces.append((face if cells.strip(" ") else self._grounds[face]) * len(cells))
        new_text, new_faces = "".join(texts), "".join(faces)
        if len(new_text) > (room := self.width - x):
            is_cut = new_text[room] == REST
            new_text, new_faces = new_text[:room], new_faces[:room]
            new_text = _without_half(new_text) if is_cut else new_text
        old_text, old_faces = self._drawn[y]
        end = x + len(new_text)
        before, behind = old_text[:x], old_text[end:]
        # Of a wide character that loses a part nothing is left.
        before = _without_half(before) if old_text[x : x + 1] == REST else before
        behind = _without_rest(behind) if behind[:1] == REST else behind
        text = before + new_text + behind
        drawn = (text, old_faces[:x] + new_faces + old_faces[end:])
        if drawn != self._drawn[y]:
            self._drawn[y] = drawn
            self._changed.add(y)

    def cells(self, text: str) -> str:
        """The text with exactly one character for each cell."""
        if (text.isascii() and text.isprintable()) or self._narrow.issuperset(text):
            return text
        if all(self._is_narrow(character) for character in set(text)):
            return text
        return "".join(self._cluster(cluster) for cluster in clusters(text, self._width_of))

    def _is_narrow(self, character: str) -> bool:
        if character in self._narrow:
            return True
        if not _is_shown(character) or self._width_of(character) != 1 or is_unsure(character):
            return False
        self._narrow.add(character)
        return True

    def _cluster(self, text: str) -> str:
        width = self._width_of(text)
        shown = "".join(character for character in text if _is_shown(character))
        if not shown or not width:
            return " " * width
        if width == 1 and len(shown) == 1 and self._is_narrow(shown):
            return shown
        if shown not in self._clusters:
            if len(self._cluster_texts) > LAST_CLUSTER - FIRST_CLUSTER:
                return "?" * width
            self._clusters[shown] = chr(FIRST_CLUSTER + len(self._cluster_texts))
            self._cluster_texts.append(shown)
        return self._clusters[shown] + REST * (width - 1)

    # --- Writing

    def take(self, cursor: tuple[int, int]) -> str:
        """What makes the terminal show all that was drawn, with the cursor there; "" when it does already."""
        out: list[str] = []
        for y in sorted(self._changed):
            drawn, shown = self._drawn[y], self._shown[y]
            if drawn != shown:
                self._write_row(y, drawn, shown, out)
                self._shown[y] = drawn
        self._changed.clear()
        if self._pen and self._looks[ord(self._pen) - 1].link:
            self._set_pen(self.face(""), out)
        self._move(*cursor, out)
        return "".join(out)

    def _write_row(self, y: int, drawn: tuple[str, str], shown: tuple[str, str], out: list[str]) -> None:
        (text, faces), (old_text, old_faces) = drawn, shown
        first, last = _differing(text, old_text)
        if faces != old_faces:
            first_face, last_face = _differing(faces, old_faces)
            first, last = min(first, first_face), max(last, last_face)
        spans = [(first, last)]
        if last - first > SHORT:
            equal = bytes(map(eq, text[first:last], old_text[first:last]))
            if faces != old_faces:
                equal = bytes(map(and_, equal, map(eq, faces[first:last], old_faces[first:last])))
            spans = [(first + span.start(), first + span.end()) for span in _SPANS.finditer(equal)]
        done = 0
        for span in spans:
            start, end = _whole_words(text, *span)
            start = max(start, done)
            if start < end:
                self._write(start, y, text[start:end], faces[start:end], out)
                done = end

    def _write(self, x: int, y: int, text: str, faces: str, out: list[str]) -> None:
        if faces.count(faces[0]) == len(faces):
            runs = [(0, len(faces))]
        else:
            runs = [run.span() for run in _RUNS.finditer(faces)]
        for start, end in runs:
            # What was never drawn is nobody's: it stays as it is.
            if faces[start] != UNKNOWN:
                self._write_run(x + start, y, text[start:end], faces[start], out)

    def _write_run(self, x: int, y: int, text: str, face: str, out: list[str]) -> None:
        ground = self._looks[ord(face) - 1].ground
        if ground is None or not self._erases:
            self._write_text(x, y, text, face, out)
            return
        for part in _LONG_BLANKS.split(text) if " " * BLANKS in text else (text,):
            if len(part) >= BLANKS and part[0] == " " and not part.strip(" "):
                self._erase(x, y, len(part), face, out)
            elif part:
                self._write_text(x, y, part, face, out)
            x += len(part)

    def _erase(self, x: int, y: int, length: int, face: str, out: list[str]) -> None:
        self._move(x, y, out)
        self._set_ground(face, out)
        out.append("\x1b[K" if x + length >= self.width else f"\x1b[{length}X")

    def _set_ground(self, face: str, out: list[str]) -> None:
        """Let the pen have this ground; the colour of letters does not matter for blanks."""
        if not self._pen or self._looks[ord(self._pen) - 1].ground != self._looks[ord(face) - 1].ground:
            self._set_pen(face, out)

    def _set_pen(self, face: str, out: list[str]) -> None:
        if face == self._pen:
            return
        way = self._transitions.get((self._pen, face))
        if way is None:
            if len(self._transitions) >= MOST_TRANSITIONS:
                self._transitions.clear()
            old = self._looks[ord(self._pen) - 1] if self._pen else None
            way = self._transitions[self._pen, face] = transition(old, self._looks[ord(face) - 1])
        out.append(way)
        self._pen = face

    def _write_text(self, x: int, y: int, text: str, face: str, out: list[str]) -> None:
        self._move(x, y, out)
        if text.isspace() and self._looks[ord(face) - 1].ground is not None and not text.strip(" "):
            self._set_ground(face, out)
        else:
            self._set_pen(face, out)
        if _STAND_INS.search(text):
            self._write_clusters(x, y, text, out)
        else:
            out.append(text)
            self._went_to(x + len(text), y)

    def _write_clusters(self, x: int, y: int, text: str, out: list[str]) -> None:
        """Write what holds wide characters; a terminal that takes one for wider or narrower spoils no other cell."""
        position = 0
        while position < len(text):
            character = text[position]
            number = ord(character) - FIRST_CLUSTER
            if not 0 <= number < len(self._cluster_texts):
                # Half of a wide character whose other half is gone shows nothing.
                out.append(" " if character in (REST, UNKNOWN) else character)
                position += 1
                continue
            cluster = self._cluster_texts[number]
            width = self._width_of(cluster)
            if any(map(is_unsure, cluster)):
                self._went_to(x + position, y)
                out.append(" " * width)
                self._move(x + position, y, out, is_lost=True)
                out.append(cluster)
                self._move(x + position + width, y, out, is_lost=True)
            else:
                out.append(cluster)
            position += width
        self._went_to(x + len(text), y)

    def _went_to(self, x: int, y: int) -> None:
        # In the last column terminals differ in where the cursor is.
        self._place = (x, y) if x < self.width else None

    def _move(self, x: int, y: int, out: list[str], *, is_lost: bool = False) -> None:
        if self._place == (x, y) and not is_lost:
            return
        if self._place is not None and not is_lost and self._place[1] == y and x > self._place[0]:
            steps = x - self._place[0]
            out.append("\x1b[C" if steps == 1 else f"\x1b[{steps}C")
        else:
            out.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        self._place = (x, y)


def _differing(one: str, other: str) -> tuple[int, int]:
    """Where two texts of one length begin to differ, and where they have ceased to; both their length if nowhere."""
    length = len(one)
    low, high = 0, length
    # Halving and comparing slices stays in C: a loop over the cells takes ten times as long.
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    start, low, high = low, low, length
    while low < high:
        middle = (low + high) // 2
        if one[middle:high] == other[middle:high]:
            high = middle
        else:
            low = middle + 1
    return (start, high) if start < length else (length, 0)


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The stretch, grown to the ends of the words that it cuts, as long as they are words."""
    first = text.rfind(" ", max(0, start - LONGEST_WORD), start) + 1
    last = text.find(" ", end, end + LONGEST_WORD)
    if text[start] != " ":
        start = first or (0 if start <= LONGEST_WORD else start)
    if last > 0 and text[end - 1] != " ":
        end = last
    # A wide character is written whole.
    while start > 0 and text[start] == REST:
        start -= 1
    while end < len(text) and text[end] == REST:
        end += 1
    return start, end


def _without_half(before: str) -> str:
    """The text before a cut, without the wide character that the cut goes through."""
    start = len(before) - 1
    while start >= 0 and before[start] == REST:
        start -= 1
    return before[: max(start, 0)] + " " * (len(before) - max(start, 0))


def _without_rest(behind: str) -> str:
    """The text behind a cut, without the rest of the wide character that the cut goes through."""
    kept = behind.lstrip(REST)
    return " " * (len(behind) - len(kept)) + kept


def _is_shown(character: str) -> bool:
    """Whether it may be written: it moves no cursor and begins no sequence."""
    return character >= " " and not "\x7f" <= character <= "\x9f"


def is_unsure(character: str) -> bool:
    """Whether terminals differ in how wide this is: pictures, what joins them, and what changes them."""
    point = ord(character)
    return 0x1F000 <= point < 0x20000 or 0xFE00 <= point <= 0xFE0F or point == 0x200D or point >= 0xE0000


def clusters(text: str, width_of: Callable[[str], int]) -> list[str]:
    """The text in pieces that are drawn as one: a letter and what combines with it; their widths add up to its own."""
    found: list[str] = []
    for character in text:
        joins = found and (width_of(character) == 0 or found[-1][-1] == "\u200d")
        if joins and _is_shown(character):
            found[-1] += character
        else:
            found.append(character)
    return found if sum(map(width_of, found)) == width_of(text) else [text]
