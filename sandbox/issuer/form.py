"""The sign-in form and its errors: plain HTML without scripts."""

import base64
import hashlib
from dataclasses import asdict
from html import escape

from sandbox.issuer.requests import AuthorizationRequest

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
main { max-width: 24rem; margin: 10vh auto; padding: 0 1rem }
label { display: block; margin: 1rem 0 .25rem }
input, button { box-sizing: border-box; width: 100%; padding: .6rem; font: inherit }
button { margin-top: 1.5rem }
.fault { color: #b3261e }
@media (prefers-color-scheme: dark) { .fault { color: #ff8a80 } }
"""
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()


def sign_in_page(asked: AuthorizationRequest, *, name: str = "", email: str = "", fault: str = "") -> str:
    """The form, carrying the request along; with what was typed and what is wrong with it."""
    hidden = "".join(
        f'<input type="hidden" name="{key}" value="{escape(value)}">' for key, value in asdict(asked).items()
    )
    alarm = f'<p class="fault" role="alert">{escape(fault)}</p>' if fault else ""
    return _page(
        "Sign in",
        f"""<h1>Sign in</h1>
<p>This is a sandbox: any name and any address are accepted, no mail is sent, and there is no password.</p>
{alarm}<form method="post" action="authorize">{hidden}
<label for="name">Name</label>
<input id="name" name="name" autocomplete="name" maxlength="100" value="{escape(name)}">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="email" maxlength="254" required autofocus
 value="{escape(email)}">
<button>Sign in</button></form>""",
    )


def fault_page(description: str) -> str:
    """For a request that cannot be answered by a redirect."""
    return _page("Cannot sign in", f'<h1>Cannot sign in</h1><p class="fault">{escape(description)}</p>')


def policy(origins: tuple[str, ...]) -> str:
    """The pages' Content-Security-Policy. A form's redirect counts as its action, so the clients are named."""
    targets = " ".join(("'self'", *origins))
    return (
        f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; form-action {targets}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )


def _page(title: str, content: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Rowlock sandbox</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><main>{content}</main></body></html>"
    )
