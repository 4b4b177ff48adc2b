"""What new responses cost, as the files say into which a client writes its conversation: nothing of what was said.

The log says how far each file was read, and what a reader has to know there, so each response counts once. A file that
is missing, or has another form, has no responses.
"""

from __future__ import annotations

import os
from _operator import itemgetter

from faber_ledger.ledger.clock import time_left, utc_text
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

    # A time to the second, the model, and tokens: not cached, cached, given.
    Response = tuple[str, str, int, int, int]
    Responses = dict[str, Response]  # by their ids
    # Takes the new lines of a file, in pieces, and what was noted of earlier ones; returns responses and a new note.
    Reader = Callable[[Iterable[bytes], list[str]], tuple[Responses, list[str]]]

MOST_BYTES = 8 * 1024 * 1024  # of all files in one call: the next call reads on
MOST_FILES = 500
MOST_KINDS = 20  # of model and phase, each of which is an event
LONGEST_TIME, DAY = 19, 10  # letters of a time to the second, and to the day
PAUSE_SECONDS = 300  # after which nobody was at work
MOST_TOKENS = 10**12
TOTALS = 3  # of a conversation of Codex: input, cached input, output
KNOWN, FIRST = 4, 16  # responses whose further lines may come later; among which they come then
UNKNOWN, SYNTHETIC = "unknown", "<synthetic>"  # the client's own errors are responses of the latter
USAGE, ASSISTANT = b'"usage":{', b'"type":"assistant"'
ID, MODEL = b'"id":"msg_', b'"model":"'
PIECE = 1 << 17  # bytes that are read at once
SECONDS_TO_RECORD = 0.2  # of a hook's time, which a slow disk leaves
MARGIN = 600  # bytes before what is said in a line, mostly
LONGEST_MODEL, LONGEST_PART = 60, 12
COPIES = "agent-acompact-"
MAKERS = ("claude-", "gpt-", "gemini-")


def read_usage(
    client: str | None, agent: str, transcript: str, log: Log, state: dict[str, Any], at: float
) -> list[dict[str, Any]]:
    """Return events of what a client's responses on this run cost that no event has yet."""
    reader = READERS.get(agent)
    if reader is None or not client or not is_of_session(transcript, client):
        return []
    course = _Course(log.course_of(client), state, at)
    if course.newest is None:
        return []
    read, responses = _read_files(transcript, course.marks, reader)
    sums = _sum_up(sorted(responses.values()), course)
    lengths = [int(end) - int(start) for start, end, *_ in map(str.split, read.values())]
    if not sums and max(lengths, default=0) >= MOST_BYTES // 8:
        sums[course.newest, UNKNOWN, None] = [0] * len(USED)  # else the part would be read again and again
    events: list[dict[str, Any]] = []
    for (session_id, model, phase), used in sums.items():
        about = {"type": "usage_recorded", "session_id": session_id, "model": model, "in_phase": phase}
        events.append({**about, **dict(zip(USED, used, strict=True)), "read_files": {} if events else read})
    return events


def _sum_up(responses: list[Response], course: _Course) -> dict[tuple[str, str, str | None], list[int]]:
    """Return the sums of responses, in the order of their times, by session, model and phase."""
    sums: dict[tuple[str, str, str | None], list[int]] = {}
    names: dict[str, str] = {}
    before, second = "", 0
    for when, model, fresh, cached, given in responses:
        if when >= course.until:
            course.go_to(when)
        if course.session_id is None:
            continue
        name = names.get(model) or names.setdefault(model, _clean_model(model))
        used = sums.get((course.session_id, name, course.phase))
        if used is None:
            kind = (name, course.phase) if len(sums) < MOST_KINDS else (UNKNOWN, None)
            used = sums.setdefault((course.session_id, *kind), [0] * len(USED))
        now = int(when[11:13]) * 3600 + int(when[14:16]) * 60 + int(when[17:19])
        pause = now - second if before == when[:DAY] else PAUSE_SECONDS
        before, second = when[:DAY], now
        used[0] += fresh
        used[1] += cached
        used[2] += given
        used[3] += 1
        used[4] += pause if pause < PAUSE_SECONDS else 0
    return sums


def facts_of_usage(events: list[Any], log: Log, client: str | None) -> list[Draft]:
    """Return the facts of events that `read_usage` returned, unless others were recorded since of the same files."""
    marks = _Course(log.course_of(client or ""), {}, 0).marks
    starts = [(name, mark.split(" ")[0]) for event in events for name, mark in event["read_files"].items()]
    if any([marks.get(name, ["0"])[0] != start for name, start in starts]):
        return []  # the client's next end reads them again
    return [{"event": event, "client": client} for event in events]


def _clean_model(name: str) -> str:
    """Return a model's name as it is recorded: short, and without a secret."""
    name = name[:LONGEST_MODEL]
    if name.startswith(MAKERS) and max(map(len, name.replace(".", "-").split("-"))) < LONGEST_PART and name.isascii():
        return name
    from faber_ledger.recording.secrets.mask import mask_text  # the usual names need none

    return "".join([letter if letter.isprintable() else "?" for letter in mask_text(name)]) or UNKNOWN


class _Course:
    """The sessions and phases of a client over time, and how far its files were read, by its events on a run.

    `session_id` is the session of the moment that `go_to` was given last, None if it is another run's.
    """

    def __init__(self, events: Iterable[Recorded], state: dict[str, Any], at: float) -> None:
        self.marks: dict[str, list[str]] = {}
        self.until = ""
        self.session_id: str | None = None
        self.phase: str | None = None
        moments: list[tuple[str, str | None, str | None]] = []
        is_left = False
        for recorded in events:
            event = dict(recorded["event"])
            if event["type"] == "usage_recorded":
                self._note(event.get("read_files"))
                continue
            if event["type"] == "session_started" and is_left:  # it was on another run, or killed, until now
                when, _, phase = moments[-1]
                moments[-1] = (when, None, phase)
            is_left = event.get("inferred") is True
            when = recorded["at"][:LONGEST_TIME]
            if event["type"] == "session_started" and "delivery" not in event:
                when += "~"  # a command began it: the response that called it, in this second, was before
            moments.append((when, text_of(event, "session_id"), text_of(event, "phase")))
        self.newest = moments[-1][1] if moments else None
        moments.sort(key=itemgetter(0))  # an inferred end has an earlier time
        self._times = [when for when, _, _ in moments]
        self._moments = [*moments, (utc_text(at), None, current_phase(state))]
        states = phase_states(state).items()
        started = [(text_of(phase, "started_at") or "", name) for name, phase in states]
        begun = [(when[:LONGEST_TIME], name) for when, name in started if when.endswith("Z")]
        phases = sorted(begun, key=itemgetter(0))  # those of one second in the state's order
        self._started, self._phases = [when for when, _ in phases], [name for _, name in phases]

    def _note(self, read_files: object) -> None:
        for name, mark in read_files.items() if isinstance(read_files, dict) else ():
            words = mark.split(" ") if isinstance(mark, str) else []
            if len(words) > 1 and words[1].isdecimal():
                self.marks[name] = words[1:]

    def go_to(self, when: str) -> None:
        """Set the session and the phase of a time, each None if it is unknown, and until when they hold."""
        after, started = [sum([one <= when for one in times]) for times in (self._times, self._started)]
        self.until = min([*self._times[after:], *self._started[started:]], default="~")
        _, self.session_id, self.phase = self._moments[after - 1] if after else ("", None, None)
        if started:
            self.phase = self._phases[started - 1]
        elif after and self.until not in self._started and self.phase != self._moments[after][2]:
            self.phase = None  # it changed meanwhile, and no phase has the time


def _read_files(transcript: str, marks: dict[str, list[str]], reader: Reader) -> tuple[dict[str, str], Responses]:
    """Return from where to where each file was read, and the responses that are new in them."""
    read: dict[str, str] = {}
    responses: Responses = {}
    left = MOST_BYTES
    for path in _paths_of(transcript):
        name = sha256("/".join(path.split("/")[-2:]).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        start, *known = marks.get(name, ["0"])
        lines = _NewLines(path, int(start), left)
        try:
            found, known = reader(lines, known)
        except (FileRefused, OSError, ValueError):
            continue
        if lines.end == int(start):
            continue
        responses = found | responses
        read[name] = " ".join([start, str(lines.end), *known])
        left -= lines.end - int(start)
        if left <= 0 or len(read) >= MOST_FILES:
            break
    return read, responses


def _paths_of(transcript: str) -> list[str]:
    """Return a client's file, and those of its subagents, which Claude Code has in a folder of the session's name.

    Those that summarize for a compaction begin with the whole conversation, whose responses count by the client's file.
    """
    folder = os.path.join(os.path.splitext(transcript)[0], "subagents")
    names = [name for name in names_in(folder) if name.endswith(".jsonl") and not name.startswith(COPIES)]
    return [transcript, *[os.path.join(folder, name) for name in sorted(names)]]


class _NewLines:
    """The lines of a file after the byte `start`, in pieces of at most `limit` bytes; `end` is where whole ones end.

    A line that a piece has only in part comes again, with the next. Small pieces use the same memory again: new memory
    for 5 MB takes longer than all else.
    """

    def __init__(self, path: str, start: int, limit: int) -> None:
        self._path, self._start, self._limit = path, start, limit
        self.end = start

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces; raises FileRefused and OSError."""
        descriptor, size, piece = open_regular(self._path), PIECE, b""
        try:
            stop = self._start + min(os.fstat(descriptor).st_size - self._start, self._limit)
            while self.end < stop and time_left() > SECONDS_TO_RECORD:
                piece = os.pread(descriptor, min(size, stop - self.end), self.end)
                cut = piece.rfind(b"\n") + 1
                if cut:
                    self.end += cut
                    yield piece
                elif len(piece) < size:
                    break
                size = PIECE if cut else size * 2
        finally:
            os.close(descriptor)
        if len(piece) == MOST_BYTES:
            self.end += len(piece)  # inside a line that is longer than any response


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


def _count(value: dict[str, Any], name: str) -> int:
    number = value.get(name)
    return number if type(number) is int and 0 <= number < MOST_TOKENS else 0


def _time_of(entry: dict[str, Any]) -> str:
    """Return when a line was written, to the second; empty if it does not say."""
    when = entry.get("timestamp")
    if type(when) is not str or not (when[11:13] + when[14:16] + when[17:19]).isdecimal():
        return ""
    return when[:LONGEST_TIME] if len(when) >= LONGEST_TIME else ""


def _distinct(found: Responses, known: list[str]) -> tuple[Responses, list[str]]:
    """Return the responses but those among the first that were known before, and hashes of the last ids."""
    names = [*found]
    for name in names[:FIRST] if known else ():
        if _id_of(name) in known:
            del found[name]
    return {name: one for name, one in found.items() if one[0]}, [*known, *map(_id_of, names[-KNOWN:])][-KNOWN:]


def _id_of(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _lines_with(pieces: Iterable[bytes], words: bytes) -> Iterator[bytes]:
    """Yield the lines that have some words; quotes in them show that no text has them, where a quote is escaped."""
    for piece in pieces:
        at = piece.find(words)
        while at >= 0 and (end := piece.find(b"\n", at)) >= 0:
            yield piece[piece.rfind(b"\n", 0, at) + 1 : end]
            at = piece.find(words, end)


def _read_claude(pieces: Iterable[bytes], known: list[str]) -> tuple[Responses, list[str]]:
    """Claude Code: several lines have parts of one response, and the last one all of its tokens."""
    found: Responses = {}
    for piece in pieces:
        found |= _read_piece(piece)
    return _distinct(found, known)


def _read_piece(piece: bytes) -> Responses:
    """Return the responses of the whole lines of a piece of Claude Code's file.

    What was said is most of a line, and is not looked at: what counts is at its beginning and its end.
    """
    found: Responses = {}
    places: dict[bytes, tuple[int, int, int]] = {}  # by a response's id, where its last line begins, its usage, its end
    at = piece.find(ASSISTANT)  # no text has it: in one, quotes are escaped
    while at >= 0 and (end := piece.find(b"\n", at)) >= 0:
        start = piece.rfind(b"\n", 0, at) + 1
        named, usage = piece.find(ID, start, min(start + MARGIN, at)), piece.rfind(USAGE, start, at)
        if named >= 0 and usage >= 0:
            named += len(ID)
            places[piece[named : piece.find(b'"', named)]] = start, usage, end
        else:
            found |= _read_line(piece[start:end])
        at = piece.find(ASSISTANT, end)
    entries = _parse_all([piece[usage:end] for _, usage, end in places.values()])
    for (name, (start, _, _)), entry in zip(places.items(), entries, strict=True):
        model = piece[start : start + MARGIN].partition(MODEL)[2].partition(b'"')[0] or UNKNOWN.encode()
        response = _response_of(entry, model.decode("utf-8", "replace"))
        if response is not None:
            found[name.decode("utf-8", "replace")] = response
    return found


def _parse_all(tails: list[bytes]) -> list[dict[str, Any]]:
    """Return what the ends of lines say, each of an object from its usage on; empty for one that has another form."""
    begin, entries = b'{"message":{', []
    try:
        texts = b"[" + b",".join([begin + tail for tail in tails]) + b"]"
        entries = loads(texts.decode("utf-8", "replace"))  # all at once takes half the time
    except (ValueError, RecursionError):
        pass
    is_whole = len(entries) == len(tails) and all([type(entry) is dict for entry in entries])
    return entries if is_whole else [_parse(begin + tail) for tail in tails]


def _read_line(line: bytes) -> dict[str, Response]:
    """Return the response of a line in which its parts come in another order, by its id; empty if it has none."""
    entry = _parse(line)
    message = _within(entry, "message")
    name = text_of(message, "id") or text_of(entry, "uuid")
    response = _response_of(entry, text_of(message, "model") or UNKNOWN)
    return {name: response} if response is not None and name else {}


def _response_of(line: dict[str, Any], model: str) -> Response | None:
    message = line.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    if line.get("type") != "assistant" or model == SYNTHETIC or not isinstance(usage, dict):
        return None
    fresh = _count(usage, "input_tokens") + _count(usage, "cache_creation_input_tokens")
    return _time_of(line), model, fresh, _count(usage, "cache_read_input_tokens"), _count(usage, "output_tokens")


def _read_codex(pieces: Iterable[bytes], known: list[str]) -> tuple[Responses, list[str]]:
    """Codex: after a response a line has the totals of the conversation, and an earlier line names the model.

    A total that has fallen has begun again.
    """
    *noted, model = known if len(known) == TOTALS + 1 else ["0"] * TOTALS + [UNKNOWN]
    total = [int(number) for number in noted if number.isdecimal()]
    found: Responses = {}
    for line in (line for piece in pieces for line in piece.split(b"\n")[:-1]):
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
                tokens = (max(taken - cached, 0), max(cached, 0), max(given, 0))
                found[str(len(found))] = (_time_of(entry), model, *tokens)
    return {name: one for name, one in found.items() if one[0]}, [*map(str, total), model]


def _read_copilot(pieces: Iterable[bytes], known: list[str]) -> tuple[Responses, list[str]]:
    """Copilot: each response has a line for its tokens alone."""
    found: dict[str, Response] = {}
    for line in _lines_with(pieces, b'"type":"session.usage_record"'):
        entry = _parse(line)
        usage, name = _within(entry, "data", "usage"), text_of(entry, "id")
        cached = _count(usage, "cacheReadTokens")
        tokens = (max(_count(usage, "inputTokens") - cached, 0), cached, _count(usage, "outputTokens"))
        if name and usage:
            found[name] = (_time_of(entry), text_of(usage, "model") or UNKNOWN, *tokens)
    return _distinct(found, known)


def _read_gemini(pieces: Iterable[bytes], known: list[str]) -> tuple[Responses, list[str]]:
    """Gemini: a line has a message with its tokens, and may come again; `$set` has earlier messages."""
    found: dict[str, Response] = {}
    for line in _lines_with(pieces, b'"tokens":{'):
        entry = _parse(line) if not line.startswith(b'{"$') else {}
        tokens, name = _within(entry, "tokens"), text_of(entry, "id")
        if entry.get("type") == "gemini" and name:
            cached = _count(tokens, "cached")
            taken = max(_count(tokens, "input") + _count(tokens, "tool") - cached, 0)
            model = text_of(entry, "model") or UNKNOWN
            found[name] = (_time_of(entry), model, taken, cached, _count(tokens, "output") + _count(tokens, "thoughts"))
    return _distinct(found, known)


READERS: dict[str, Reader] = {
    "claude": _read_claude,
    "codex": _read_codex,
    "copilot": _read_copilot,
    "gemini": _read_gemini,
}
