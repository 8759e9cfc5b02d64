package lab

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the hash by which Redis names scripts
	"encoding/hex"
	"regexp"
	"strconv"
)

// A client sends a script or a statement in full once and refers to it by a name afterwards.
// The functions below learn the names. Each function that they return serves one proxy.

// ScriptWith picks the requests that run Redis scripts with text in them.
func ScriptWith(text string) func(request []byte) bool {
	evalHead := regexp.MustCompile(`(?i)\r\neval\r\n\$(\d+)\r\n`)
	known := make(map[string]struct{}) // the digests, which are the names
	return func(request []byte) bool {
		head := evalHead.FindSubmatchIndex(request)
		if head == nil {
			return containsAny(request, known)
		}
		size, err := strconv.Atoi(string(request[head[2]:head[3]]))
		if err != nil || head[1]+size > len(request) {
			return false // the script is not complete
		}
		script := request[head[1] : head[1]+size]
		if !bytes.Contains(script, []byte(text)) {
			return false
		}
		digest := sha1.Sum(script) //nolint:gosec // as above
		known[hex.EncodeToString(digest[:])] = struct{}{}
		return true
	}
}

// StatementWith picks the requests that execute PostgreSQL statements with text in them.
func StatementWith(text string) func(request []byte) bool {
	// A message Parse: its length, the name of the statement, the statement.
	parse := regexp.MustCompile(`(?s)P.{4}([a-z0-9_]+)\x00([^\x00]*)\x00`)
	known := make(map[string]struct{})
	return func(request []byte) bool {
		for _, statement := range parse.FindAllSubmatch(request, -1) {
			if bytes.Contains(statement[2], []byte(text)) {
				known[string(statement[1])] = struct{}{}
				return false // the client executes it in a later request
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
