package schemes

import "time"

// plan is how large the parts are that are not measured in rounds of a given time.
type plan struct {
	windows    int           // stretches of codes in which is guessed
	idle       time.Duration // for how long everybody is watched doing nothing
	rest       time.Duration // before the steady load
	spaceLinks int           // made at each share of the space
	spaceExact float64       // how far the mean of their attempts may be from its own, as a share
	crashes    int           // of each server
	indexLinks int64         // in each table
	before     time.Duration // of load, until something is killed
	half       time.Duration // from the first kill to the second one, and from there to the restart
	after      time.Duration // of load, when all are back
}

// full is the plan of every run but those of tests. The rest is as long as what a server says
// of its pool may be old. The mean of 700 attempts, each a
// geometric variable, is within 12 % of its own in all but one of a thousand runs.
func full() plan {
	return plan{
		windows: 5, idle: 2 * time.Second, rest: time.Second, spaceLinks: 700, spaceExact: 0.12, crashes: 20, indexLinks: 1_000_000,
		before: 4 * time.Second, half: 3 * time.Second, after: 5 * time.Second,
	}
}

// codeCount is how many links each scheme makes one right after the other.
func (p plan) codeCount() int { return p.windows * (seenCodes + nextCodes) }
