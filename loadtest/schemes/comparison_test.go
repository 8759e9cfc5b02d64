//go:build drill

package schemes

import "testing"

// The whole of it, with a scheme that has a supply and one that has none.
func TestComparison(t *testing.T) {
	t.Parallel()
	c := compare(t, programs, poolScheme, "random")
	results := execute(t, c)
	for i, s := range results {
		mustFail(t, s)
		if len(s.Tables) == 0 || parts()[i].measures && s.Tally().Held == 0 {
			t.Errorf("%s: %d tables, %d claims held", s.Name, len(s.Tables), s.Tally().Held)
		}
	}
	overview := results[len(results)-1].Tables[0]
	for _, row := range overview.Rows {
		for i, cell := range row {
			if cell == unknown && row[0] == poolScheme {
				t.Errorf("%s of %s is not known", overview.Columns[i], row[0])
			}
		}
	}
	if f := c.found["random"]; f.space.attempts[2] < 5 {
		t.Errorf("chance takes %v attempts", f.space.attempts)
	}
}
