//go:build drill

package schemes

import (
	"testing"
)

// programTags are those that the programs are built with: these can be broken on purpose.
const programTags = "drill"

// claimKept is one of those that [scenario.Part.ClaimLinks] enters.
const claimKept = "no lost link"

// Programs that acknowledge links which they never store are found out, although they answer
// for them from memory at first; and nothing is found in those that can be broken and are not.
func TestBrokenPrograms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, setting string
		codes, speed  []string // claims that must fail
	}{
		{"sound", "", nil, nil},
		{"lost links", "KEYPOOL_WITHOUT=store", []string{claimKept}, []string{claimMeasured}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := compare(t, "random")
			if tt.setting != "" {
				c.schemes[0].settings = append(c.schemes[0].settings, tt.setting)
			}
			results := execute(t, c, "codes", "speed")
			mustFail(t, results[0], tt.codes...)
			mustFail(t, results[1], tt.speed...)
		})
	}
}
