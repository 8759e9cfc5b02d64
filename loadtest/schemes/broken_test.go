//go:build drill

package schemes

import (
	"testing"

	"keypool/loadtest/controls"
)

// programTags are those that the programs are built with: these have failpoints.
const programTags = "drill"

// claimKept is one of those that [scenario.Part.ClaimLinks] enters.
const claimKept = "no lost link"

// Programs that acknowledge links which they never store are found out, although they answer
// for them from memory at first. Nothing is found in programs with every protection.
func TestBrokenPrograms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		without      []string // the controls that break the programs (package controls)
		codes, speed []string // claims that must fail
	}{
		{"sound", nil, nil, nil},
		{"lost links", []string{"store"}, []string{claimKept}, []string{claimMeasured}},
	}
	builder := controls.NewBuilder(t.TempDir())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, err := builder.Build(t.Context(), tt.without, "shortener", "kgs")
			if err != nil {
				t.Fatal(err)
			}
			c := compare(t, dir, "random")
			results := execute(t, c, "codes", "speed")
			mustFail(t, results[0], tt.codes...)
			mustFail(t, results[1], tt.speed...)
		})
	}
}
