package kgstest

import (
	"keypool/kgs/codespace"
)

// Codes returns the plain 6-character codes of the numbers [lo, hi).
func Codes(lo, hi int64) []string {
	return codespace.Plain().Codes(codespace.Range{Length: 6, Lo: lo, Hi: hi})
}
