import pathlib

import polyscan

board = pathlib.Path(__file__).resolve().parents[3] / "testdata" / "board.png"
regions = {"U1": [(398, 270), (546, 270), (546, 418), (398, 418)], "U2": [(640, 180), (720, 180), (720, 260)]}
with polyscan.connect() as client:  # a server of its own; connect("host:7465") takes one that runs
    result = client.reduce(board, regions, limits={"U1": "red.mean in [35, 75]"})
print(result)
print(result["U1"].limits[0].value, result.verdict)
