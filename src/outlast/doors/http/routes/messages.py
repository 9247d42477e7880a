"""`POST /api/sessions/{id}/messages`: stores a message of the user before responding; then a turn runs."""

from __future__ import annotations

from litestar import post
from litestar.params import JSONBody

from outlast.core.errors import InvalidInput
from outlast.core.events import Delivery
from outlast.core.image_header import picture_of
from outlast.core.messages import FilePart, ImagePart, Part, TextPart
from outlast.doors.http.parameters import CHANGING, OpenServer, SessionId
from outlast.doors.http.schemas import Attachment, MessageAck, PostMessageRequest

LARGEST_PICTURE = 5 * 1024 * 1024
LARGEST_FILE = 10 * 1024 * 1024
LARGEST_TEXT = 256 * 1024


@post(
    "/api/sessions/{session_id:str}/messages",
    status_code=200,
    summary="Say something",
    operation_id="postMessage",
    tags=["sessions"],
    responses=CHANGING,
)
async def post_message(server: OpenServer, session_id: SessionId, data: JSONBody[PostMessageRequest]) -> MessageAck:
    """The message is stored before the response. Repeating the same `key` with the same body gives the same response
    and no second turn; with another body it is a conflict. A session that has ended takes no more messages (409)."""
    header = await server.named(session_id)
    parts = (TextPart(data.content), *[_part(one) for one in data.attachments or ()])
    return await server.admit(header.session_id, parts, data.key, Delivery(data.delivery or Delivery.QUEUE))


def _part(given: Attachment) -> Part:
    data = given.data
    picture = picture_of(data)
    if picture is not None:
        _check_size(given, data, LARGEST_PICTURE)
        return ImagePart(media_type=picture.media_type, data=data, alt=given.name)
    text = _text(data)
    if text is not None:
        _check_size(given, data, LARGEST_TEXT)
        return TextPart(f'\n\n<file path="{_name(given)}">\n{text.rstrip()}\n</file>')
    _check_size(given, data, LARGEST_FILE)
    return FilePart(name=_name(given), media_type=given.media_type or "application/octet-stream", data=data)


def _text(data: bytes) -> str | None:
    """Return the data as text; None if it is not text. The model gets text inline, like `@file` in the terminal, and
    other data as a file."""
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _name(given: Attachment) -> str:
    return (given.name or "attachment").replace('"', "'").replace("\n", " ")


def _check_size(given: Attachment, data: bytes, most: int) -> None:
    if len(data) > most:
        raise InvalidInput(f"{_name(given)} is larger than {most // 1024} KiB; attach less, or put it into the project")
