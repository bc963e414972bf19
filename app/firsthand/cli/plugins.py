"""``firsthand plugins``: what is loaded, what it offers, and why something was refused."""

import json
from pathlib import Path
from typing import Annotated

import typer

from firsthand.cli import FOUND_WRONG
from firsthand.host import PluginInfo, load_plugins
from firsthand.host.template import generate


def register(app: typer.Typer) -> None:
    """Add the command."""
    commands = typer.Typer(help="See what plugins offer, and begin one of your own.")
    commands.callback(invoke_without_command=True)(show)
    commands.command("new")(new)
    app.add_typer(commands, name="plugins")


def show(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """List plugins, their hooks and what they offer. Ends with 1 if one was refused."""
    if context.invoked_subcommand is not None:
        return
    plugins = load_plugins().plugins
    refused = sum(plugin.refused is not None for plugin in plugins)
    if as_json:
        typer.echo(json.dumps({"plugins": [plugin.to_json() for plugin in plugins]}, indent=2))
    else:
        for plugin in plugins:
            typer.echo(_paragraph(plugin))
        typer.echo(_summary(len(plugins), refused))
    if refused:
        raise typer.Exit(FOUND_WRONG)


def new(
    name: Annotated[str, typer.Argument(help="What the plugin and its device are called.")],
    out: Annotated[Path, typer.Option(help="The folder to make the plugin's folder in.")],
) -> None:
    """Write a plugin that works, to begin one of your own."""
    folder = generate(name, out)
    typer.echo(f"A plugin that works is in {folder}. Its README.md says what to do next.")


def _paragraph(plugin: PluginInfo) -> str:
    head = f"{plugin.name}  ({plugin.distribution} {plugin.version})"
    if plugin.refused is not None:
        return f"{head}\n    REFUSED: {plugin.refused}"
    lines = [head, f"    hooks: {', '.join(plugin.hooks)}"]
    lines.extend(f"    {offer.kind} {offer.name}: {offer.title}" for offer in plugin.offers)
    lines.extend(f"    note: {note}" for note in plugin.notes)
    return "\n".join(lines)


def _summary(count: int, refused: int) -> str:
    if not count:
        return "No plugin is installed."
    if not refused:
        return f"All {count} plugins are in use." if count > 1 else "The plugin is in use."
    return (
        f"{refused} of {count} refused; the others are in use. A refused plugin stops nothing:"
        " mend or uninstall it."
    )
