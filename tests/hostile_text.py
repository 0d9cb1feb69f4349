"""Text that wants to be more than text. Everything that shows text
from elsewhere is tried with it.
"""

HOSTILE_TEXTS = (
    # A terminal: writes the clipboard, sets the title, clears the screen, repaints, rings; the same
    # in C1 controls.
    "\x1b]52;c;cm0gLXJmIH4=\x07",
    "\x1b]0;title\x1b\\",
    "\x1b[2J\x1b[H\x1b[31m**Not reproduced**\r\x08\x08",
    "\x9b2J\x9d52;c;cm0=\x9c\x90",
    # Ends lines where a program does not expect it, turns and hides text.
    "a\u2028b\u2029c\x0bd\x0ce\x85f",
    "\u202egnp.exe\u202c \u2066x\u2069 \u200bzero\u200d \ufeff \U000e0041 \u00ad",
    # Bytes that were no UTF-8.
    "\udc80\udcff",
    # HTML: ends elements, attributes and comments, opens elements.
    '"\'></script ><script>window.hurt=1</script><img src=x onerror="window.hurt=2">',
    '<!-- <a href="javascript:window.hurt=3">y</a> &amp; </details>',
    # Jinja, rich and matplotlib.
    "{{ 7*7 }} [bold red]x[/] :boom: $\\frac$",
    # SVG: ends sections, names addresses and colours.
    "]]> url(#x) var(--text) #1c1e21 #ffffff &#x3c;",
    # Markdown, and what GitHub makes of it.
    "| `z` **bold** _x_ ~~y~~ [link](https://example.com) ![image](x) <https://example.com> \\",
    "@octocat (@octocat) #1 octocat/hello#2 GH-3 https://github.com/octocat/hello/issues/4 "
    "www.example.com",
)
