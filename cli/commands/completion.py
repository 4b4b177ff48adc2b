"""`faber-ledger completion`: the script with which a shell completes commands, options, runs and worktrees."""

import click

from faber_ledger.cli.ui.output import tell_lines

NAME = "faber-ledger"
VARIABLE = "_FABER_LEDGER_COMPLETE"


@click.command(short_help="Print the shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script with which SHELL completes commands, options, runs and worktrees.

    \b
    Create the folder and write the script there; a new shell then completes:
      bash  ~/.local/share/bash-completion/completions/faber-ledger
      zsh   ~/.zfunc/_faber-ledger, with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
      fish  ~/.config/fish/completions/faber-ledger.fish
    Example: faber-ledger completion bash
    Exit codes: 0 done; 2 wrong usage.
    """
    from click.shell_completion import get_completion_class

    script, app = get_completion_class(shell), click.get_current_context().find_root().command
    if script is not None:
        tell_lines(script(app, {}, NAME, VARIABLE).source().rstrip())
