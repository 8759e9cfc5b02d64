package keyserver

import (
	"os/exec"
	"testing"

	"keypool/kgs/kgstest"
)

// script is a Python program that takes and returns keys. It uses only the HTTP client of the Python
// standard library.
const script = `
import json, sys, urllib.request

def call(procedure, **request):
    return json.load(urllib.request.urlopen(urllib.request.Request(
        sys.argv[1] + "/keypool.kgs.v1.KeyService/" + procedure, json.dumps(request).encode(),
        {"Authorization": "Bearer " + sys.argv[2], "Content-Type": "application/json"}), timeout=10))

first = call("TakeKeys", requestId="a", count=100)
again = call("TakeKeys", requestId="a", count=100)
assert first == again and len(set(first["codes"])) == 100, (first, again)
assert call("ReturnKeys", leaseId=first["leaseId"], unused=first["codes"][50:]) == {}
second = call("TakeKeys", requestId="b", count=50)
assert second["codes"] == first["codes"][50:], second
status = call("Status")
assert status["keysReserved"] == "100" and status["spaceLength"] == 6, status
try:
    call("TakeKeys", requestId="a", count=100)
    assert False, "TakeKeys gave keys of a lease that was returned"
except urllib.error.HTTPError as e:
    assert e.code == 400 and json.load(e)["code"] == "failed_precondition", e
`

func TestPythonClientTakesAndReturnsKeys(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := serve(t, l.Ledger, nil)
		out, err := exec.CommandContext(t.Context(), "python3", "-c", script, s.URL, mine).CombinedOutput()
		if err != nil {
			t.Errorf("the Python program failed: %v: %s", err, out)
		}
	})
}
