// Reads and writes payloads with the reference implementation, a line at a time: "decode HEX" is answered with JSON,
// "encode JSON" with hex, and what can't be done with "error WHY". node_modules lies in the working directory.
"use strict";
const path = require("path");
const readline = require("readline");
const codec = require(path.resolve("node_modules/sparkplug-payload")).get("spBv1.0");

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const at = line.indexOf(" ");
  const rest = line.slice(at + 1);
  try {
    if (line.slice(0, at) === "decode") {
      // Integers of 64 bits are objects there; all that travels here fits a double.
      console.log(JSON.stringify(codec.decodePayload(Buffer.from(rest, "hex")), (_, v) =>
        v !== null && typeof v === "object" && "low" in v && "high" in v ? v.high * 2 ** 32 + (v.low >>> 0) : v));
    } else {
      console.log(Buffer.from(codec.encodePayload(JSON.parse(rest))).toString("hex"));
    }
  } catch (e) {
    console.log("error " + String(e).replace(/\n/g, " "));
  }
});
