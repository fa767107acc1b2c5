// What a misspelt word was probably meant to be, as internal/spelling has it.

/** nearest is the known word that another one is probably meant to be, or empty: one that differs in capitals alone, in
 * one letter of three, or in two letters of six. */
export function nearest(word: string, known: string[]): string {
  if (word.length > 24) return "";
  let best = "";
  let least = 3;
  for (const k of known) {
    const d = distance(word.toLowerCase(), k.toLowerCase());
    if (d < least && (d === 0 || (d === 1 && k.length > 2) || k.length >= 6)) [best, least] = [k, d];
  }
  return best;
}

/** distance counts the insertions, deletions, substitutions and swaps of neighbours that make a of b. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 0; i < a.length; i++) {
    const row = [i + 1];
    for (let j = 0; j < b.length; j++) {
      row[j + 1] = Math.min(last[j]! + (a[i] === b[j] ? 0 : 1), last[j + 1]! + 1, row[j]! + 1);
      if (i > 0 && j > 0 && a[i] === b[j - 1] && a[i - 1] === b[j]) row[j + 1] = Math.min(row[j + 1]!, before[j - 1]! + 1);
    }
    [before, last] = [last, row];
  }
  return last[b.length]!;
}
