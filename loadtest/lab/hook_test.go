package lab

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWebhookCountsMalformedAlertsAndRefusesEverySecondAlert(t *testing.T) {
	t.Parallel()
	h := Webhook(newRun(t))
	post := func(body string) int {
		res, err := http.Post(h.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	if got := post(`{"pool_keys":"many"}`); got != http.StatusBadRequest || h.Malformed() != 1 {
		t.Errorf("status %d and %d malformed requests, want 400 and 1", got, h.Malformed())
	}
	h.RefuseEveryOther()
	var statuses []int
	for _, state := range []string{"restart", "page", "page", "ok"} {
		statuses = append(statuses, post(`{"state":"`+state+`","pool_keys":5}`))
	}
	if !slices.Equal(statuses, []int{200, 503, 200, 503}) || !slices.Equal(h.States(), []string{"restart", "page"}) {
		t.Errorf("the hook answered with %v and accepted the states %v, want every second alert to be refused", statuses, h.States())
	}
	if got, ok := FirstAlert(h.Alerts(), time.Time{}, "ok", "page"); !ok || got.State != "page" || *got.PoolKeys != 5 {
		t.Errorf("FirstAlert returns %+v and %t, want the alert with the state page", got, ok)
	}
	if _, ok := FirstAlert(h.Alerts(), time.Now(), "page"); ok {
		t.Error("FirstAlert returned an alert from before the given time")
	}
}
