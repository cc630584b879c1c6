"""The output of a torchrun run that the Log pane shows: that of all ranks, of a node, or of one rank."""

from __future__ import annotations

from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.logs.rank_files import node_log, rank_path
from tui_workbench.runs.logs.ranks import Ranks, rank_prefix

ALL_RANKS = -1  # the choice of the combined output instead of a rank


class RankChoice:
    """The ranks of a run, and the user's choice. `ranks` is None if the run has no ranks, or until they are read."""

    def __init__(self) -> None:
        self._ranks: Ranks | None = None
        self._rank = ALL_RANKS
        self._node = ""  # the node whose ranks are shown; "" for all nodes

    @property
    def ranks(self) -> Ranks | None:
        return self._ranks

    @ranks.setter
    def ranks(self, ranks: Ranks) -> None:
        """Replace the ranks. A node or rank that no longer exists is no longer chosen."""
        self._ranks = ranks
        if self._node not in ("", *ranks.nodes):
            self._node, self._rank = "", ALL_RANKS
        if self._rank not in self._numbers(ranks):
            self._rank = ALL_RANKS

    def _numbers(self, ranks: Ranks) -> tuple[int, ...]:
        """Return the ranks of the chosen node, or all ranks."""
        return ranks.by_node[self._node] if self._node else ranks.numbers

    @property
    def shows_all(self) -> bool:
        return self._rank == ALL_RANKS and not self._node

    @property
    def has_nodes(self) -> bool:
        return self.ranks is not None and bool(self.ranks.nodes)

    def step_rank(self, direction: int) -> None:
        """Choose the next or previous rank (`direction` 1 or -1), of the chosen node or of all nodes.

        All ranks together are one step of the cycle.
        """
        if self.ranks is not None:
            order = (ALL_RANKS, *self._numbers(self.ranks))
            self._rank = order[(order.index(self._rank) + direction) % len(order)]

    def step_node(self, direction: int) -> None:
        """Choose all ranks of the next or previous node (`direction` 1 or -1).

        All nodes together are one step of the cycle.
        """
        if self.ranks is not None:
            order = ("", *self.ranks.nodes)
            self._node, self._rank = order[(order.index(self._node) + direction) % len(order)], ALL_RANKS

    def log_of(self, run: Run) -> str:
        """Return the path of the log with the chosen output."""
        if self.ranks is not None and self._rank != ALL_RANKS:
            return rank_path(run.directory, self._node or self.ranks.current[self._rank], self._rank)
        return node_log(run.directory, self._node) if self._node else run.log_path

    @property
    def title(self) -> str:
        """A short text about the choice, with a leading comma; "" for a run without ranks."""
        if self.ranks is None:
            return ""
        by_node, ranks = self.ranks.by_node, len(self.ranks.numbers)
        if self._rank != ALL_RANKS:
            node = self._node or self.ranks.current[self._rank]
            return f", rank {self._rank} of {ranks}{f' on {node}' if node else ''}"
        if self._node:
            return f", {counted(len(by_node[self._node]), 'rank')} on {self._node}"
        nodes = f" on {counted(len(self.ranks.nodes), 'node')}" if self.ranks.nodes else ""
        return f", {counted(ranks, 'rank')}{nodes}"

    @property
    def no_output(self) -> str:
        """The text that replaces an empty log."""
        if self._rank != ALL_RANKS:
            return f"No output from rank {self._rank}."
        return f"No output on {self._node}." if self._node else "No output."

    @property
    def failed_prefix(self) -> str:
        """The beginning of the lines of the failed rank in the combined output; "" if it is unknown."""
        return rank_prefix(self.ranks.failed) if self.ranks is not None and self.ranks.failed >= 0 else ""

    @property
    def traceback_owner(self) -> str:
        """The rank that raised the exception in the chosen output, such as `rank 3: `; "" if it is unknown."""
        if self.ranks is None:
            return ""
        rank = self.ranks.failed if self.shows_all else self._rank
        return f"rank {rank}: " if rank >= 0 else ""
