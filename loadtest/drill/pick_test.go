//go:build drill

package drill

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"strconv"
)

// Requests are sent in full once and by a name afterwards, which has to be learnt. Both
// pickers are for one proxy each.

var evalHead = regexp.MustCompile(`(?i)\r\neval\r\n\$(\d+)\r\n`)

// scriptWith picks the requests to run the Redis scripts with text in them.
func scriptWith(text string) func(request []byte) bool {
	known := make(map[string]struct{}) // the digests, which are the names
	return func(request []byte) bool {
		if head := evalHead.FindSubmatchIndex(request); head != nil {
			size, err := strconv.Atoi(string(request[head[2]:head[3]]))
			if err != nil || head[1]+size > len(request) {
				return false // not all of the script is here
			}
			script := request[head[1] : head[1]+size]
			if !bytes.Contains(script, []byte(text)) {
				return false
			}
			digest := sha1.Sum(script) // as Redis makes the names of scripts
			known[hex.EncodeToString(digest[:])] = struct{}{}
			return true
		}
		return containsAny(request, known)
	}
}

// parsed is a Postgres message that gives a statement a name. The lengths before it are
// of no interest.
var parsed = regexp.MustCompile(`(?s)P.{4}([a-z0-9_]+)\x00([^\x00]*)\x00`)

// statementWith picks the requests to execute the Postgres statements with text in them.
func statementWith(text string) func(request []byte) bool {
	known := make(map[string]struct{})
	return func(request []byte) bool {
		for _, statement := range parsed.FindAllSubmatch(request, -1) {
			if bytes.Contains(statement[2], []byte(text)) {
				known[string(statement[1])] = struct{}{}
				return false // it is not executed before it is known
			}
		}
		return containsAny(request, known)
	}
}

func containsAny(request []byte, names map[string]struct{}) bool {
	for name := range names {
		if bytes.Contains(request, []byte(name)) {
			return true
		}
	}
	return false
}
