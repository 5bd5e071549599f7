"""Commands: everything that can be asked, in one table. A command returns a result and prints nothing."""

from nbckpt.commands import about, browsing, comparing, housekeeping, restoring, saving, syncing, trials
from nbckpt.commands.table import IN_NOTEBOOKS, Command, HelpRequest, Option, Request, Session, parse

TABLE = {
    command.name: command
    for module in (browsing, comparing, saving, restoring, trials, syncing, housekeeping, about)
    for command in module.COMMANDS
}

__all__ = ["IN_NOTEBOOKS", "TABLE", "Command", "HelpRequest", "Option", "Request", "Session", "parse"]
