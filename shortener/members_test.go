package shortener

import (
	"errors"
	"strconv"
	"testing"
)

// A line of a bulk request has room for thousands of tags. If each tag were compared with all earlier tags, a request of 16 MiB
// would occupy the processors for seconds.
func TestCheckOfTagsEndsAtLimit(t *testing.T) {
	tags := make([]string, 3000)
	for i := range tags {
		tags[i] = strconv.Itoa(i)
	}
	if checked, err := checkTags(append(tags[:maxTags:maxTags], tags[0], " 1 ")); err != nil || len(checked) != maxTags {
		t.Errorf("checkTags of %d tags and two repetitions returns %d tags and the error %v", maxTags, len(checked), err)
	}
	var err error
	allocs := testing.AllocsPerRun(3, func() { _, err = checkTags(tags) })
	if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Field != "tags" {
		t.Errorf("%d tags: %v, want an *InvalidError of the field tags", len(tags), err)
	}
	if allocs > 3*maxTags {
		t.Errorf("the check of %d tags allocates memory %v times, so it does not end at the limit", len(tags), allocs)
	}
}
