"""The module that draws charts, 5 MB, named in the answer to a visit of a view that opens with a chart: the browser
reads and compiles it next to all else, and not only once the first chart is there.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pages._kit.components.charts_ready import drawing_module


class ChartModule:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_link(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("Link", f"<{drawing_module()}>; rel=modulepreload")
            await send(message)

        is_visit = scope["type"] == "http" and opens_with_chart(scope["path"], scope["query_string"].decode("latin-1"))
        await self.app(scope, receive, send_with_link if is_visit and drawing_module() else send)


def opens_with_chart(path: str, query: str) -> bool:
    """Of an address, by the first question of its view, else of the page's first view. Pages whose views are no
    questions, such as Live, open with none, and a table of LPs and models is drawn otherwise."""
    from engine.questions import PAGES, question_of  # what the server can start without

    views = PAGES.get(path.rpartition("/")[2], {})
    first = next((view for view, _ in views), "")
    view = parse_qs(query).get("view", [first])[-1]
    key = next((keys[0] for (name, _), keys in views.items() if name == view), None)
    return key is not None and any(chart.kind != "matrix" for chart in question_of(key).CHARTS[:1])
