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
    """Let an agent ask and record by calling tools, for one that has no hooks; `init --mcp AGENT` registers it.

    The agent starts this command, and ends it by closing its standard input, which ends the agent's session.

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
