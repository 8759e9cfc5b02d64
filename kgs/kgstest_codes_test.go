package kgs

// codes are the plain codes of 6 characters of the numbers [lo, hi).
func codes(lo, hi int64) []string { return PlainSpace().Codes(Run{Length: 6, Lo: lo, Hi: hi}) }
