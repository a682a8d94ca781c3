"""Whether the dashboard is one by Grafana's own types.

`python -m tests.oracles.grafana` brings the npm packages `@grafana/schema` and `typescript` into a temporary
folder and has the compiler check what `aijobs dashboard` prints: the dashboard as a whole, and of each panel
the options of its kind, its fields and its queries, which the type of the whole leaves open. So that it is
seen to check, the compiler must also refuse copies with a fault each.
"""

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aijobs.core.dashboard import dashboard
from tests.oracles.borrowed import NotToBeHad, npm_packages, without

PACKAGES = ("@grafana/schema@13.2.3", "typescript@7.0.2")
KINDS = {"timeseries": "TimeSeries", "state-timeline": "StateTimeline"}
HEAD = """\
import type { Dashboard, DataQuery, FieldConfig, Panel } from '@grafana/schema';
import type * as TimeSeries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/\
TimeSeriesPanelCfg_types.gen';
import type * as StateTimeline from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/\
StateTimelinePanelCfg_types.gen';

// A type as JSON has it: the values of an enumeration instead of its names.
type Json<T> = unknown extends T ? T
  : T extends string ? `${T}`
  : T extends number ? (number extends T ? T : `${T}` extends `${infer N extends number}` ? N : never)
  : T extends Array<infer Item> ? Array<Json<Item>>
  : T extends object ? { [Name in keyof T]: Json<T[Name]> }
  : T;
type Query = DataQuery & { expr: string; legendFormat?: string };
"""
FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no schema version": lambda board: board.pop("schemaVersion"),
    "a variable of no kind": lambda board: board["templating"]["list"][0].update(type="data"),
    "a panel without a type": lambda board: board["panels"][0].pop("type"),
    "a place in words": lambda board: board["panels"][0]["gridPos"].update(x="left"),
    "a field that is none": lambda board: board["panels"][0].update(heading="x"),
    "a legend that is none": lambda board: board["panels"][0]["options"]["legend"].update(placement="top"),
    "a unit that is a number": lambda board: board["panels"][0]["fieldConfig"]["defaults"].update(unit=1),
    "a query without a letter": lambda board: board["panels"][0]["targets"][0].pop("refId"),
}


def typescript(board: dict[str, Any]) -> str:
    """*board* as constants of Grafana's types."""
    lines = [HEAD, _constant("board", "Dashboard", board)]
    for n, panel in enumerate(board["panels"]):
        kind = KINDS.get(panel.get("type"), "TimeSeries")
        lines += [
            _constant(f"panel{n}", "Panel", panel),
            _constant(f"options{n}", f"{kind}.Options", panel["options"]),
            _constant(f"fields{n}", f"FieldConfig<{kind}.FieldConfig>", panel["fieldConfig"]["defaults"]),
            *(_constant(f"query{n}_{m}", "Query", query) for m, query in enumerate(panel["targets"])),
        ]
    return "\n".join(lines)


def _constant(name: str, kind: str, value: object) -> str:
    return f"export const {name}: Json<{kind}> = {json.dumps(value)};"


def complaints(folder: Path, board: dict[str, Any]) -> str:
    """What the compiler says against *board*; empty when nothing."""
    (folder / "board.ts").write_text(typescript(board))
    compiler = folder / "node_modules" / ".bin" / "tsc"
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]
    done = subprocess.run(
        [compiler, *options, "board.ts"], cwd=folder, capture_output=True, text=True, check=False
    )
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def main() -> int:
    """Check it; 0 when it holds, or when the types cannot be had."""
    with tempfile.TemporaryDirectory(prefix="aijobs-grafana-") as name:
        folder = Path(name)
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        try:
            npm_packages(folder, *PACKAGES)
        except NotToBeHad as why:
            return without("the dashboard by Grafana's types", why)
        board = json.loads(json.dumps(dashboard()))
        if said := complaints(folder, board):
            print(said, file=sys.stderr)
            return 1
        for what, spoil in FAULTS.items():
            spoilt = copy.deepcopy(board)
            spoil(spoilt)
            if not complaints(folder, spoilt):
                print(f"the check lets this pass: {what}", file=sys.stderr)
                return 1
    print(f"{len(board['panels'])} panels are of Grafana's types; {len(FAULTS)} faults are refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
