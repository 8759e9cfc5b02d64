//go:build drill

package drill

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A control counts as caught by the finding it is to provoke and by nothing else.
func TestControlIsCaughtByItsFinding(t *testing.T) {
	tests := []struct {
		name string
		run  func(*drill)
		want bool
	}{
		{"the finding", func(d *drill) { d.Errorf("%d lost", 3) }, true},
		{"the finding, and it ends there", func(d *drill) { d.Fatal("3 lost"); panic("went on") }, true},
		{"after something else", func(d *drill) { d.Error("slow"); d.Error("3 lost") }, true},
		{"something else", func(d *drill) { d.Fatalf("no database") }, false},
		{"nothing", func(*drill) {}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDrill(t, &row{control: control{finds: "^[1-9][0-9]* lost"}}, true)
			if got := d.provoke(tt.run); got != tt.want {
				t.Errorf("caught = %v, want %v", got, tt.want)
			}
		})
	}
}

// What the drills break the programs with is not in what users get.
func TestShippedProgramsHaveNoFailpoints(t *testing.T) {
	for _, program := range []string{"shortener", "kgs"} {
		for _, name := range []string{"KEYPOOL_FAILPOINTS", "KEYPOOL_WITHOUT"} {
			if holds(t, programs.shipped, program, name) {
				t.Errorf("the shipped %s knows %s", program, name)
			}
			if !holds(t, programs.drill, program, name) {
				t.Errorf("the drills' %s does not know %s", program, name)
			}
		}
	}
}

func holds(t *testing.T, dir, program, name string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(text, []byte(name))
}
