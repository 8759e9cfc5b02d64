package keysource

import (
	"errors"
	"testing"

	"keypool/kgs"
	"keypool/kgs/kgstest"
)

func TestHashFollowsGeneratorContract(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"sha256", "md5"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			kgstest.TestGenerator(t, func(*testing.T) kgs.Generator { return Hash{Algorithm: algorithm} })
		})
	}
}

// TestHashGivesKnownAnswers compares the codes with codes that other programs computed, for example:
//
//	printf 'https://go.dev/\n1' | openssl dgst -sha256 -binary | basenc --base64url | cut -c1-6
func TestHashGivesKnownAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url         string
		attempt     int
		sha256, md5 string
	}{
		{"", 0, "47DEQp", "1B2M2Y"},
		{"https://go.dev/", 0, "um4Hu7", "8gsjoC"},
		{"https://go.dev/", 1, "qNZ6wl", "2XxM5E"},
		{"https://go.dev/", 2, "8Ze4Xe", "pNUmvS"},
		{"https://go.dev/", 10, "pLzk-_", "hJc5lb"},
		{"https://go.dev/1", 0, "B2hAde", "CkEhfy"}, // differs from attempt 1 of https://go.dev/
		{"https://example.com/?id=a", 0, "Fx8xoR", "47vCAc"},
		{"https://example.com/%3Fid%3Da", 0, "NB3mEB", "uId9dB"}, // differs from the line above
	} {
		for algorithm, want := range map[string]string{"sha256": tc.sha256, "md5": tc.md5} {
			got, err := Hash{Algorithm: algorithm}.Next(t.Context(), tc.url, tc.attempt)
			if got != (kgs.Key{Code: want, Source: kgs.SourceHash}) || err != nil {
				t.Errorf("%s of %q, attempt %d: %+v, %v, want %s", algorithm, tc.url, tc.attempt, got, err, want)
			}
		}
	}
}

func TestHashFailsAfterLastAttempt(t *testing.T) {
	t.Parallel()
	h := Hash{Algorithm: "sha256"}
	if _, err := h.Next(t.Context(), "https://go.dev/", HashAttempts-1); err != nil {
		t.Error(err)
	}
	if k, err := h.Next(t.Context(), "https://go.dev/", HashAttempts); !errors.Is(err, kgs.ErrNoKeys) {
		t.Errorf("Next after the last attempt = %+v, %v, want ErrNoKeys", k, err)
	}
}
