package plan

import "keypool/kgs/codespace"

// Space is all codes of one length.
type Space struct {
	Length    int     `json:"length"`
	Keys      int64   `json:"keys"`
	Bytes     int64   `json:"key_database_bytes"`        // size of a table that holds each code once, without an index
	Bytes64   uint64  `json:"key_database_bytes_base64"` // the same for codes of the 64 characters of base64url
	FullAfter float64 `json:"full_after_seconds"`        // from the start of the plan until all codes are in use and new codes are longer
}

func (in Input) spaces() (all []Space) {
	keys := 0.0 // codes of this length and of all shorter lengths in the plan
	for length := in.CodeLength; length <= codespace.MaxLength; length++ {
		size := codespace.Size(length)
		keys += float64(size)
		all = append(all, Space{
			Length: length, Keys: size, Bytes: int64(length) * size, Bytes64: uint64(length) << (6 * length),
			FullAfter: keys / in.Creations,
		})
	}
	return all
}

// Year is the state at the end of a year.
type Year struct {
	Year       int     `json:"year"`
	Links      int64   `json:"links"`
	Length     int     `json:"space_length"` // length of new codes
	Used       float64 `json:"space_used_ratio"`
	Attempts   float64 `json:"fallback_attempts_expected"` // inserts for each link whose code is random
	TableBytes float64 `json:"table_bytes"`
	IndexBytes float64 `json:"index_bytes"`
}

func (in Input) years() (all []Year) {
	for i := range in.Years {
		all = append(all, in.at(float64(i+1)*year, i+1))
	}
	return all
}

// at returns the state after the given seconds. number becomes Year.Year.
func (in Input) at(seconds float64, number int) Year {
	links := in.links(seconds)
	length, used := in.CodeLength, links
	for length < codespace.MaxLength && used >= float64(codespace.Size(length)) {
		used -= float64(codespace.Size(length))
		length++
	}
	size := float64(codespace.Size(length))
	return Year{
		Year: number, Links: int64(links), Length: length, Used: used / size, Attempts: size / (size - used),
		TableBytes: links * tableBytesPerLink, IndexBytes: links * indexBytesPerLink,
	}
}
