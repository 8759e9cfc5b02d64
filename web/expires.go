package web

import (
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"

	"keypool/shortener"
	"keypool/shortener/destination"
)

// choice is one option of the expiry field. An empty Value means that the person sends no expiry.
type choice struct {
	Value, Label string
	Selected     bool
}

// life returns the time from the creation to the expiry of an anonymous link that is created with expiresIn. It returns 0
// if the link does not expire. It fails with a *shortener.InvalidError if the service would refuse expiresIn.
func (p *pages) life(expiresIn string) (time.Duration, error) {
	r := shortener.Request{URL: "https://example.com/", MaxAge: p.limits.AnonymousMaxAge}
	if expiresIn != "" {
		r.ExpiresIn = &expiresIn
	}
	link, err := r.Link(time.Now(), &destination.Rules{})
	if err != nil || link.ExpiresAt.IsZero() {
		return 0, err
	}
	return link.ExpiresAt.Sub(link.CreatedAt), nil
}

// expires returns the choices of the expiry field. No choice exceeds AnonymousMaxAge. If the service accepts expiresIn,
// the choice of this expiry is selected. Otherwise the empty choice is selected.
func (p *pages) expires(expiresIn string) []choice {
	longest := p.limits.AnonymousMaxAge
	life, err := p.life(expiresIn)
	if err != nil {
		life = longest
	}
	choices := []choice{{"", "Never", life == longest}}
	if longest > 0 {
		choices[0].Label = after(longest)
	}
	for _, hours := range []int{1, 24, 7 * 24, 30 * 24, 365 * 24} {
		if d := time.Duration(hours) * time.Hour; longest == 0 || d < longest {
			choices = append(choices, choice{strconv.Itoa(hours) + "h", after(d), d == life})
		}
	}
	if !slices.ContainsFunc(choices, func(c choice) bool { return c.Selected }) {
		choices = append(choices, choice{expiresIn, after(life), true})
	}
	return choices
}

// after returns the label of a choice, such as "After 1 day 12 hours". The label omits a fraction of a second.
func after(d time.Duration) string {
	label := "After"
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		if n := d / unit.length; n > 0 {
			label += " " + english.Plural(int(n), unit.name, "")
		}
		d %= unit.length
	}
	return label
}
