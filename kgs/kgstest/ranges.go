package kgstest

import (
	"keypool/kgs/codespace"
)

// Codes are the plain codes of 6 characters of the numbers [lo, hi).
func Codes(lo, hi int64) []string {
	return codespace.Plain().Codes(codespace.Range{Length: 6, Lo: lo, Hi: hi})
}
