"""Paginated lists."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Page(Protocol[T]):
    """A page as the generated client returns it."""

    @property
    def items(self) -> list[T]: ...

    @property
    def next_cursor(self) -> str | None: ...


def each(read: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """Reads a list to its end, newest first. `read` reads the page of a cursor, with None for the first page. Keep the same filters on every page."""
    cursor: str | None = None
    while True:
        page = read(cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
