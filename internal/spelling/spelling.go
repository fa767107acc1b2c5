// Package spelling finds what a misspelt word was probably meant to be.
package spelling

import "strings"

// Nearest is the known word that another one is probably meant to be, or empty: one that differs in capitals alone, in
// one letter of three, or in two letters of six.
func Nearest(word string, known []string) string {
	if len(word) > 24 {
		return ""
	}
	low := strings.ToLower(word)
	best, least := "", 3
	for _, k := range known {
		if d := distance(low, strings.ToLower(k)); d < least && (d == 0 || d == 1 && len(k) > 2 || len(k) >= 6) {
			best, least = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions, substitutions and swaps of neighbours that make a of b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			substitute := last[j]
			if a[i] != b[j] {
				substitute++
			}
			row[j+1] = min(substitute, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
