"""What new responses cost, as the files say into which a client writes its conversation: nothing of what was said.

The log says how far each file was read, and what a reader has to know there, so each response counts once. A file that
is missing, or has another form, has no responses.
"""

from __future__ import annotations

import os
from _bisect import bisect_right

from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.disk import FileRefused, open_regular
from faber_ledger.ledger.encoding import loads, sha256
from faber_ledger.ledger.event_types import USED
from faber_ledger.runs.progress import current_phase, phase_states, text_of
from faber_ledger.runs.seen import is_of_session, names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.recording.call import Call

    # A time to the second, the model, and tokens: not cached, cached, given.
    Response = tuple[str, str, int, int, int]
    # Takes the new lines of a file and what was noted of the earlier ones; returns responses and what to note.
    Reader = Callable[[bytes, list[str]], tuple[list[Response], list[str]]]

MOST_BYTES = 8 * 1024 * 1024  # of all files in one call: the next call reads on
MOST_FILES = 500
MOST_KINDS = 20  # of model and phase, each of which is an event
LONGEST_TIME, DAY = 19, 10  # letters of a time to the second, and to the day
PAUSE_SECONDS = 300  # after which nobody was at work
MOST_TOKENS = 10**12
TOTALS = 3  # of a conversation of Codex: input, cached input, output
KNOWN = 4  # responses whose further lines may come later
UNKNOWN, SYNTHETIC = "unknown", "<synthetic>"  # the client's own errors are responses of the latter
USAGE, CONTENT, ASSISTANT = b'"usage":{', b'"content":[', b'"type":"assistant"'
MARGIN = 2_000  # bytes before and after what is said in a line, at most
LONGEST_MODEL, LONGEST_PART = 60, 12
MAKERS = ("claude-", "gpt-", "gemini-")


def read_usage(call: Call, transcript: str | None, log: Log, state: dict[str, Any], at: float) -> list[dict[str, Any]]:
    """Return events, without their session, of what a client's responses on this run cost that no event has yet."""
    if transcript is None or not call.client or not is_of_session(transcript, call.client):
        return []
    course = _Course(log.course_of(call.client), state, at)
    read, responses = _read_files(transcript, course.marks, READERS.get(call.agent or "claude", _read_nothing))
    counts: dict[tuple[str, str | None], list[int]] = {}
    before = ""
    for when, model, *tokens in sorted(responses):
        is_own, phase = course.find(when)
        if not is_own:
            continue
        kind = (_clean_model(model), phase)
        kind = kind if kind in counts or len(counts) < MOST_KINDS else (UNKNOWN, None)
        used = [*tokens, 1, _seconds_between(before, when)]
        counts[kind] = [one + more for one, more in zip(counts.get(kind, [0] * len(used)), used, strict=True)]
        before = when
    if not counts and any([not _is_small(marks) for marks in read.values()]):
        counts[UNKNOWN, None] = [0] * len(USED)  # else a file without a response would be read again and again
    events: list[dict[str, Any]] = [
        {
            "type": "usage_recorded",
            "model": model,
            "in_phase": phase,
            "read_files": {},
            **dict(zip(USED, used, strict=True)),
        }
        for (model, phase), used in counts.items()
    ]
    for event in events[:1]:
        event["read_files"] = read
    return events


def facts_of_usage(events: list[dict[str, Any]], log: Log, client: str | None, session_id: str) -> list[Draft]:
    """Return the facts of events that `read_usage` returned, unless others were recorded since of the same files."""
    marks = _Course(log.course_of(client or ""), {}, 0).marks
    starts = [(name, mark.split(" ")[0]) for event in events for name, mark in event["read_files"].items()]
    if any([marks.get(name, ["0"])[0] != start for name, start in starts]):
        return []  # the client's next end reads them again
    made: list[Any] = [{**event, "session_id": session_id} for event in events]
    return [{"event": event, "client": client} for event in made]


def _is_small(mark: str) -> bool:
    start, end, *_ = mark.split(" ")
    return int(end) - int(start) < MOST_BYTES // 8


def _seconds_between(before: str, when: str) -> int:
    """Return how long a client was at work between two responses of one day; 0 after a pause."""
    if before[:DAY] != when[:DAY]:
        return 0
    seconds = _second_of_day(when) - _second_of_day(before)
    return seconds if seconds <= PAUSE_SECONDS else 0


def _second_of_day(when: str) -> int:
    return int(when[11:13]) * 3600 + int(when[14:16]) * 60 + int(when[17:19])


def _clean_model(name: str) -> str:
    """Return a model's name as it is recorded: short, and without a secret."""
    name = name[:LONGEST_MODEL]
    if name.startswith(MAKERS) and max(map(len, name.replace(".", "-").split("-"))) < LONGEST_PART and name.isascii():
        return name
    from faber_ledger.recording.secrets.mask import mask_text  # the usual names need none

    return "".join([letter if letter.isprintable() else "?" for letter in mask_text(name)]) or UNKNOWN


class _Course:
    """When a client was on a run and in which phase that was, and how far its files were read: by its events."""

    def __init__(self, events: Iterable[Recorded], state: dict[str, Any], at: float) -> None:
        self.marks: dict[str, list[str]] = {}
        moments: list[tuple[str, bool, str | None]] = []
        is_left = False
        for recorded in events:
            event = dict(recorded["event"])
            if event["type"] == "usage_recorded":
                self._note(event.get("read_files"))
                continue
            if event["type"] == "session_started" and is_left:  # it was on another run, or killed, until now
                when, _, phase = moments[-1]
                moments[-1] = (when, False, phase)
            is_left = event.get("reason") == "abandoned"
            moments.append((recorded["at"][:LONGEST_TIME], True, text_of(event, "phase")))
        self._times = [when for when, _, _ in moments]
        self._moments = [*moments, (utc_text(at), True, current_phase(state))]
        states = phase_states(state).items()
        started = [(text_of(phase, "started_at") or "", name) for name, phase in states]
        self._phases = sorted([(when[:LONGEST_TIME], name) for when, name in started if when.endswith("Z")])

    def _note(self, read_files: object) -> None:
        for name, mark in read_files.items() if isinstance(read_files, dict) else ():
            words = mark.split(" ") if isinstance(mark, str) else []
            if len(words) > 1 and words[1].isdecimal():
                self.marks[name] = words[1:]

    def find(self, when: str) -> tuple[bool, str | None]:
        """Return whether the client was on the run at a time, and the run's phase; None if that is unknown."""
        after = bisect_right(self._times, when)
        if after == 0:
            return False, None
        _, is_on, phase = self._moments[after - 1]
        if self._phases:
            number = bisect_right(self._phases, (when, "\U0010ffff"))
            return is_on, self._phases[number - 1][1] if number else None
        return is_on, phase if phase == self._moments[after][2] else None


def _read_files(transcript: str, marks: dict[str, list[str]], reader: Reader) -> tuple[dict[str, str], list[Response]]:
    """Return from where to where each file was read, and the responses that are new in them."""
    read, responses, left = {}, [], MOST_BYTES
    for path in _paths_of(transcript):
        name = sha256("/".join(path.split("/")[-2:]).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        start, *known = marks.get(name, ["0"])
        content, end = _read_lines(path, int(start), left)
        if end == int(start):
            continue
        found, known = reader(content, known)
        responses += found
        read[name] = " ".join([start, str(end), *known])
        left -= end - int(start)
        if left <= 0 or len(read) >= MOST_FILES:
            break
    return read, responses


def _paths_of(transcript: str) -> list[str]:
    """Return a client's file, and those of its subagents, which Claude Code has in a folder of the session's name."""
    folder = os.path.join(os.path.splitext(transcript)[0], "subagents")
    return [transcript, *[os.path.join(folder, name) for name in sorted(names_in(folder)) if name.endswith(".jsonl")]]


def _read_lines(path: str, start: int, limit: int) -> tuple[bytes, int]:
    """Return the whole lines of a file after a byte, of at most `limit` bytes, and where they end."""
    content = b""
    try:
        descriptor = open_regular(path)
        try:
            size = min(os.fstat(descriptor).st_size - start, limit)
            while len(content) < size and (piece := os.pread(descriptor, size - len(content), start + len(content))):
                content += piece
        finally:
            os.close(descriptor)
    except (FileRefused, OSError, ValueError):
        return b"", start
    end = content.rfind(b"\n") + 1
    if end == 0 and len(content) == MOST_BYTES:
        return b"", start + len(content)  # inside a line that is longer than any response
    return content[:end], start + end


# The forms of the files


def _parse(line: bytes) -> dict[str, Any]:
    try:
        found = loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _within(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return an object in an object; empty if there is none."""
    for name in names:
        inner = value.get(name)
        value = inner if isinstance(inner, dict) else {}
    return value


def _count(value: dict[str, Any], *names: str) -> int:
    """Return the sum of numbers of tokens."""
    return sum([number for name in names if type(number := value.get(name)) is int and 0 <= number < MOST_TOKENS])


def _time_of(entry: dict[str, Any]) -> str:
    """Return when a line was written, to the second; empty if it does not say."""
    when = (text_of(entry, "timestamp") or "")[:LONGEST_TIME]
    return when if len(when) == LONGEST_TIME and (when[11:13] + when[14:16] + when[17:19]).isdecimal() else ""


def _distinct(found: dict[str, Response], known: list[str]) -> tuple[list[Response], list[str]]:
    """Return the responses that were not known before by their ids, and the last ids."""
    new = {name: response for name, response in found.items() if name not in known and response[0]}
    return [*new.values()], [*known, *new][-KNOWN:]


def _id_of(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _lines_with(content: bytes, words: bytes) -> Iterator[bytes]:
    """Yield the lines that have some words; quotes in them show that no text has them, where a quote is escaped."""
    at = content.find(words)
    while at >= 0:
        end = content.find(b"\n", at)
        yield content[content.rfind(b"\n", 0, at) + 1 : end]
        at = content.find(words, end)


def _read_claude(content: bytes, known: list[str]) -> tuple[list[Response], list[str]]:
    """Claude Code: several lines have parts of one response, and the last one all of its tokens."""
    lines: dict[bytes, bytes] = {}
    for line in _lines_with(content, USAGE):
        if ASSISTANT in line[-MARGIN:] or ASSISTANT in line[:MARGIN]:
            at = line.find(b'"id":"', line.find(b'"message":{')) + 6
            lines[line[at : line.find(b'"', at)] if at > 5 else line] = line
    found: dict[str, Response] = {}
    for line in lines.values():
        entry = _parse(_without_content(line))
        message = _within(entry, "message")
        if "usage" not in message:
            entry = _parse(line)
            message = _within(entry, "message")
        usage, model = _within(message, "usage"), text_of(message, "model") or UNKNOWN
        name = text_of(message, "id") or text_of(entry, "uuid")
        if entry.get("type") == "assistant" and name and model != SYNTHETIC:
            taken = _count(usage, "input_tokens", "cache_creation_input_tokens")
            tokens = (taken, _count(usage, "cache_read_input_tokens"), _count(usage, "output_tokens"))
            found[_id_of(name)] = (_time_of(entry), model, *tokens)
    return _distinct(found, known)


def _without_content(line: bytes) -> bytes:
    """Return a line without what was said in it, most of its length."""
    start, end = line.find(CONTENT) + len(CONTENT), line.rfind(b'],"', 0, line.rfind(USAGE))
    return line[:start] + line[end:] if len(CONTENT) <= start <= end else line


def _read_codex(content: bytes, known: list[str]) -> tuple[list[Response], list[str]]:
    """Codex: after a response a line has the totals of the conversation, and an earlier line names the model.

    A total that has fallen has begun again.
    """
    *noted, model = known if len(known) == TOTALS + 1 else ["0"] * TOTALS + [UNKNOWN]
    total = [int(number) for number in noted if number.isdecimal()]
    found: list[Response] = []
    for line in content.split(b"\n"):
        head = line[:MARGIN]
        if b'"type":"turn_context"' in head:
            model = _clean_model(text_of(_within(_parse(line), "payload"), "model") or UNKNOWN).replace(" ", "")
        elif b'"type":"token_count"' in head:
            entry = _parse(line)
            usage = _within(entry, "payload", "info", "total_token_usage")
            now = [_count(usage, name) for name in ("input_tokens", "cached_input_tokens", "output_tokens")]
            before = total if all(map(int.__ge__, now, total)) else [0] * TOTALS
            taken, cached, given = [new - old for new, old in zip(now, before, strict=True)]
            if usage and taken + given > 0:
                total = now
                found.append((_time_of(entry), model, max(taken - cached, 0), max(cached, 0), max(given, 0)))
    return [response for response in found if response[0]], [*map(str, total), model]


def _read_copilot(content: bytes, known: list[str]) -> tuple[list[Response], list[str]]:
    """Copilot: each response has a line for its tokens alone."""
    found: dict[str, Response] = {}
    for line in _lines_with(content, b'"type":"session.usage_record"'):
        entry = _parse(line)
        usage, name = _within(entry, "data", "usage"), text_of(entry, "id")
        cached = _count(usage, "cacheReadTokens")
        tokens = (max(_count(usage, "inputTokens") - cached, 0), cached, _count(usage, "outputTokens"))
        if name and usage:
            found[_id_of(name)] = (_time_of(entry), text_of(usage, "model") or UNKNOWN, *tokens)
    return _distinct(found, known)


def _read_gemini(content: bytes, known: list[str]) -> tuple[list[Response], list[str]]:
    """Gemini: a line has a message with its tokens, and may come again; `$set` has earlier messages."""
    found: dict[str, Response] = {}
    for line in _lines_with(content, b'"tokens":{'):
        entry = _parse(line) if not line.startswith(b'{"$') else {}
        tokens, name = _within(entry, "tokens"), text_of(entry, "id")
        if entry.get("type") == "gemini" and name:
            cached = _count(tokens, "cached")
            taken = max(_count(tokens, "input", "tool") - cached, 0)
            model = text_of(entry, "model") or UNKNOWN
            found[_id_of(name)] = (_time_of(entry), model, taken, cached, _count(tokens, "output", "thoughts"))
    return _distinct(found, known)


def _read_nothing(_: bytes, known: list[str]) -> tuple[list[Response], list[str]]:
    return [], known


READERS: dict[str, Reader] = {
    "claude": _read_claude,
    "codex": _read_codex,
    "copilot": _read_copilot,
    "gemini": _read_gemini,
}
