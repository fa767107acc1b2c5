"""Quality control of a folder: judge each picture by limits, and list what failed and why.

    qc_folder.py FOLDER REGIONS [--address HOST:PORT]

REGIONS is a file of regions with limits, in any format that polyscan reads. The exit code is 0 where all passed, 1
where a picture failed, and 2 where one could not be read: what can't be judged has not passed.
"""

import argparse
import pathlib
import sys

import polyscan

parser = argparse.ArgumentParser(description="Judge the pictures of a folder.")
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("regions", type=pathlib.Path)
parser.add_argument("--address", help="of a server that runs; without one it is started")
given = parser.parse_args()

ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
there = sorted(p for p in given.folder.iterdir() if not p.name.startswith(".") and not p.samefile(given.regions))
pictures = [p for p in there if p.suffix.lower() in ENDINGS]
others = [p for p in there if p not in pictures]
if not pictures:
    sys.exit(f"{given.folder}: no pictures")
for p in others:  # which may be pictures, or hold some
    print(f"{p.name}: not read: pictures end in {', '.join(ENDINGS)}")
failed, unread = 0, len(others)
with polyscan.connect(given.address) as client:
    # One stream: the next pictures are read and sent while the server computes.
    for answer in client.stream(pictures, client.regions(given.regions)):
        if answer.error:
            unread += 1
            print(f"{answer.frame.name}: {answer.error}")
            continue
        result = answer.result
        print(f"{answer.frame.name}: {result.verdict}")
        failed += not result.passed
        for name in result.failed:
            for limit in result[name].limits:
                if limit.verdict != polyscan.Verdict.PASS:
                    print(f"    {name}: {limit.expression}: {limit.reason}")
print(f"{len(pictures)} pictures, {failed} failed, {unread} could not be read")
sys.exit(2 if unread else 1 if failed else 0)
