package token

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestBearerHasIDAndSecret(t *testing.T) {
	t.Parallel()
	secret := newSecret()
	if other := newSecret(); len(secret) < 26 || other == secret { // 26 characters of base32 have 130 bits
		t.Errorf("the secrets %q and %q are short or equal", secret, other)
	}
	for _, id := range []int64{1, 42, 99_999_999, 100_000_000} {
		bearer := formatBearer(id, secret)
		gotID, gotSecret, ok := parseBearer(bearer)
		if !ok || gotID != id || gotSecret != secret {
			t.Errorf("parseBearer(%q) = %d, %q, %v", bearer, gotID, gotSecret, ok)
		}
	}
}

func TestParseBearerRefusesInvalidBearers(t *testing.T) {
	t.Parallel()
	for _, bearer := range []string{
		"", "kp", "kp_", "kp_00000001", "kp_1_secret", "kp_00000000_secret", "kp_-0000001_secret", "kp_+0000001_secret",
		"kp_0000000x_secret", "KP_00000001_secret", "xx_00000001_secret", "kp_" + strings.Repeat("1", 19) + "_secret", "kp_000000001_secret",
	} {
		if id, _, ok := parseBearer(bearer); ok {
			t.Errorf("parseBearer(%q) accepts the id %d", bearer, id)
		}
	}
}

func TestParseIDAcceptsOnlyPositiveNumbers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"7", "00000007"} {
		if id, err := ParseID(text); id != 7 || err != nil {
			t.Errorf("ParseID(%q) = %d, %v", text, id, err)
		}
	}
	for _, text := range []string{"", "0", "-7", "seven", "7 ", strings.Repeat("9", 30)} {
		if id, err := ParseID(text); err == nil || !strings.Contains(err.Error(), "shortener token list") {
			t.Errorf("ParseID(%q) = %d, %v; want an error that says where ids are listed", text, id, err)
		}
	}
}

func TestCheckNameRefusesInvalidNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"c", "ci pipeline", "Müller", strings.Repeat("ü", 64)} {
		if err := CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
	for _, name := range []string{"", " ci", "ci ", "a\nb", "a\tb", "a\x00b", "\xff", "a\u202eb", strings.Repeat("n", 65)} {
		if err := CheckName(name); !errors.Is(err, errName) || !strings.Contains(err.Error(), "1 to 64") {
			t.Errorf("CheckName(%q) = %v, want an error that says what is accepted", name, err)
		}
	}
}

func TestUnmarshalTextParsesNamesOfScopes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"create": "create", "read, create": "create,read", "edit,edit": "edit", "admin,read": "read,admin",
	} {
		var s Scopes
		if err := s.UnmarshalText([]byte(text)); err != nil || s.String() != want {
			t.Errorf("the scopes of %q are %q, error %v; want %q", text, s, err, want)
		}
	}
	for _, text := range []string{"", "write", "create,", "Create", "create;read"} {
		var s Scopes
		if err := s.UnmarshalText([]byte(text)); !errors.Is(err, errScopes) || !strings.Contains(err.Error(), "create, read, edit and admin") {
			t.Errorf("the scopes %q: error %v, want an error that says what is accepted", text, err)
		}
	}
}

func TestScopeAdminImpliesEveryScope(t *testing.T) {
	t.Parallel()
	all := []Scopes{ScopeCreate, ScopeRead, ScopeEdit, ScopeAdmin}
	for _, tt := range []struct {
		scopes Scopes
		want   []bool // for each of all
	}{
		{0, []bool{false, false, false, false}},
		{ScopeCreate, []bool{true, false, false, false}},
		{ScopeRead | ScopeEdit, []bool{false, true, true, false}},
		{ScopeAdmin, []bool{true, true, true, true}},
	} {
		var got []bool
		for _, scope := range all {
			got = append(got, tt.scopes.Has(scope))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q has (-want +got):\n%s", tt.scopes, diff)
		}
	}
}
