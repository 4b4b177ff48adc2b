"""`faber-ledger mcp`: a server of the Model Context Protocol on standard input and output."""

from __future__ import annotations

import os

import click

from faber_ledger.postgres.address import missing_extra


@click.command()
@click.option(
    "--project",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="The project's folder, instead of the working folder.",
)
def mcp(project: str | None) -> None:
    """Serve tools for an agent that has no hooks; `init --mcp AGENT` registers this command.

    The agent starts it, and ends it and its session by closing its standard input.

    \b
    Example: faber-ledger mcp --project ~/myproject
    Exit codes: 0 the client has left; 1 the extra is not installed; 2 wrong usage.
    """
    try:
        from faber_ledger.cli.mcp.server import serve
    except ImportError as error:
        raise missing_extra("the MCP server", "mcp") from error
    if project is not None:
        os.chdir(project)
    serve(click.get_current_context().find_root().command)
