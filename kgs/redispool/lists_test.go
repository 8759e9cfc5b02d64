package redispool

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
)

func newTestLists(client redis.UniversalClient, n int) *Lists {
	cfg := Config{Holder: "holder", Space: codespace.Plain(), Ledger: &stubLedger{alive: []string{"holder"}}}
	return NewLists(client, cfg, n, slog.New(slog.DiscardHandler))
}

// The names of the Redis keys must stay the same in every release. With other names, an upgrade would
// lose the pool.
func TestRedisKeyNamesOfFirstListNeverChange(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		if l := newTestLists(nil, n+1); l.lists[0].keys[0] != "keypool:{default}:state" {
			t.Errorf("with %d lists, the names of the first list are %v, want the names of the pool default",
				n+1, l.lists[0].keys)
		}
	}
	if p := New(nil, Config{Name: "ledger"}); p.keys[1] != "keypool:{ledger}:keys" {
		t.Errorf("the names of the pool ledger are %v", p.keys)
	}
	if other := New(nil, Config{Name: "ledger", Prefix: "staging"}); other.keys[1] != "staging:{ledger}:keys" {
		t.Errorf("with the prefix staging, the names are %v, want names that begin with staging", other.keys)
	}
}

func TestHashTagsSpreadListsOverClusterSlots(t *testing.T) {
	t.Parallel()
	nodes, _ := testenv.StartRedisCluster(t, 1)
	client := openClient(t, nodes[0].Addr)
	for i := range MaxLists {
		tag := tag("name", i)
		slot, err := client.Do(t.Context(), "CLUSTER", "KEYSLOT", "keypool:{"+tag+"}:keys").Int()
		if err != nil || slot != slotOf(tag) {
			t.Fatalf("the slot of %s is %d, error %v; slotOf returns %d", tag, slot, err, slotOf(tag))
		}
	}
	for _, name := range []string{"a", "QWERTYUIOPAS"} {
		var at [MaxLists]int // the slots of the lists
		for i := range at {
			at[i] = slotOf(tag(name, i))
		}
		for masters := 2; masters <= 9; masters++ {
			lists := make([]int, masters)
			for _, slot := range at {
				lists[slot*masters/slots]++
			}
			for _, n := range lists {
				if want := MaxLists / masters; n < want-2 || n > want+3 {
					t.Errorf("%s: the lists on %d masters are %v, want nearly equal numbers", name, masters, lists)
				}
			}
		}
		seen := map[int]bool{}
		for i := range 3 {
			seen[(at[i]-at[0]+slots)%slots*3/slots] = true
		}
		if len(seen) != 3 {
			t.Errorf("%s: the first three lists are in %d thirds of the slots, want 3", name, len(seen))
		}
	}
}

// openLists opens the first list for epoch 1, the second list for epoch 2, and so on. It pushes n keys to
// each list.
func openLists(t *testing.T, l *Lists, n int64) {
	t.Helper()
	for i, list := range l.lists {
		epoch := int64(i + 1)
		openEpoch(t, list.Pool, epoch)
		r := testRange(epoch, int64(i)*1000, n)
		r.Epoch = epoch
		mustPush(t, list.Pool, r)
	}
}

func TestPoolOfSeveralListsGivesAllKeysOfEveryList(t *testing.T) {
	t.Parallel()
	l := newTestLists(testenv.Redis(t), 3)
	openLists(t, l, 100)
	if s, err := l.Status(t.Context()); s.Keys != 300 || s.Pushed != 300 || s.Epoch != 3 || err != nil {
		t.Errorf("Status = %+v, %v, want 300 keys and epoch 3", s, err)
	}
	taken := map[string]bool{}
	for range 6 {
		b, err := l.Take(t.Context(), 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range b.Codes {
			if taken[code] {
				t.Errorf("code %s was taken twice", code)
			}
			taken[code] = true
		}
		if err := l.Settle(t.Context(), b, b.Codes[:1], b.Codes[1:2]); err != nil {
			t.Errorf("settle batch %d: %v", b.ID, err)
		}
	}
	if s, err := l.Status(t.Context()); s.Keys != 6 || s.Taken != 300 || err != nil {
		t.Errorf("Status = %+v, %v, want the 6 returned keys and 300 taken keys", s, err)
	}
	if _, err := l.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	for range 3 {
		if b, err := l.Take(t.Context(), 50); err != nil || len(b.Codes) != 2 {
			t.Fatalf("Take of returned keys: %+v, %v, want 2 keys of a list", b, err)
		}
	}
	if _, err := l.Take(t.Context(), 50); !errors.Is(err, kgs.ErrEmpty) {
		t.Errorf("Take from empty lists: %v, want ErrEmpty", err)
	}
}

// A list that loses its data needs a new epoch. The other lists keep their keys.
func TestLossOfOneListKeepsKeysOfOtherLists(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t)
	l := newTestLists(client, 3)
	openLists(t, l, 100)
	if err := client.Del(t.Context(), l.lists[1].keys...).Err(); err != nil {
		t.Fatal(err)
	}
	if s, err := l.Status(t.Context()); s.Keys != 200 || s.Partial || err != nil {
		t.Errorf("Status = %+v, %v, want the 200 keys of two lists, and Partial=false", s, err)
	}
	for range 2 {
		if b, err := l.Take(t.Context(), 100); err != nil || len(b.Codes) != 100 {
			t.Fatalf("Take = %+v, %v, want 100 keys", b, err)
		}
	}
	if _, err := l.Take(t.Context(), 100); !errors.Is(err, kgs.ErrNoEpoch) || !errors.Is(err, kgs.ErrEmpty) {
		t.Errorf("Take: %v, want ErrNoEpoch of one list and ErrEmpty of the others", err)
	}
	if _, err := l.Epochs(t.Context(), map[int]int64{0: 1, 1: 2}); !errors.Is(err, kgs.ErrNoEpoch) {
		t.Errorf("Epochs: %v, want ErrNoEpoch", err)
	}
}

// A Redis that restarts keeps its list, but the list waits for an epoch. A process that has not seen the list before must
// not count the keys of the list.
func TestStatusLeavesOutKeysOfListThatWaitsForEpoch(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t)
	openLists(t, newTestLists(client, 2), 100)
	l := newTestLists(client, 2)
	if err := client.HSet(t.Context(), l.lists[1].keys[0], "run", "another").Err(); err != nil {
		t.Fatal(err)
	}
	if s, err := l.Status(t.Context()); s.Keys != 100 || err != nil {
		t.Errorf("Status = %+v, %v, want the 100 keys of the first list", s, err)
	}
}

// If a master does not answer, servers still get all keys of the lists on the other masters.
func TestRedisListsTakeFromOtherMastersIfOneIsFrozen(t *testing.T) {
	t.Parallel()
	nodes, url := testenv.StartRedisCluster(t, 3, "--cluster-require-full-coverage", "no")
	openLists(t, newTestLists(openURL(t, url), 3), 1000)
	l := newTestLists(openProgramClient(t, url), 3)
	kgstest.Await(t, "all lists answer", func() bool {
		s, err := l.Status(t.Context())
		return s.Keys == 3000 && err == nil
	})
	nodes[1].Pause()
	nodes[4].Pause() // this is the replica of nodes[1], so the Cluster cannot replace the master
	taken := 0
	kgstest.Await(t, "all keys of the other lists are taken", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), callTimeout*2)
		defer cancel()
		if b, err := l.Take(ctx, 500); err == nil {
			taken += len(b.Codes)
		}
		return taken == 2000
	})
	kgstest.Await(t, "Watch reports the status of the lists that answer", func() bool {
		s, err := l.Watch(t.Context())
		return s.Keys == 0 && s.Partial && s.Taken >= 2000 && err == nil
	})
}
