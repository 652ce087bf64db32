"""What a notebook shows of files: a page in a frame of its own."""

from __future__ import annotations

import html


class Page(str):
    """The path of an HTML page; a notebook shows the page itself, without its scripts."""

    def _repr_html_(self) -> str:
        try:
            with open(self, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            return f"<p>{html.escape(str(error))}</p>"
        style = "width:100%;height:45em;border:1px solid var(--jp-border-color2,#ccc)"
        # No script runs in a sandbox without rights, and the page's styles stay inside.
        return f'<iframe sandbox="" title="report" style="{style}" srcdoc="{html.escape(text, quote=True)}"></iframe>'
