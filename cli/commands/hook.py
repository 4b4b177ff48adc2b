"""`faber-ledger hook` for help and reference; real calls are dispatched in `entry`."""

import click

from faber_ledger.hooks.agents import AGENTS, CLIENT
from faber_ledger.recording.call import HOOKS


@click.command()
@click.argument(
    "name", type=click.Choice([*[name for name, _ in HOOKS.values()], *HOOKS]), required=False, metavar="NAME"
)
@click.option(
    "--agent",
    type=click.Choice([CLIENT, *AGENTS]),
    default=CLIENT,
    show_default=True,
    help="Which agent calls: another one has its own forms of delivery and answer.",
)
@click.pass_context
def hook(ctx: click.Context, name: str | None, agent: str) -> None:
    """Record one of the client's hook calls, JSON on standard input, and print the packet at a session's start.

    NAME is session-start, pre-compact, post-compact or session-end, or the client's name for it (SessionStart,
    PreCompact, PostCompact, SessionEnd). With --agent also that agent's own name, and user-prompt.

    \b
    Example: faber-ledger hook session-start
    Exit codes: 0, always; failures go to .fractary/faber/logs/hooks.log.
    """
    click.echo(ctx.get_help())
