package plan

import "math"

// Redirects is the work that redirects cause at the end of the plan, when the most links exist. By Zipf's law,
// the share of the visits to the i-th most popular link is proportional to i^-s, where s is Input.Zipf.
type Redirects struct {
	HitRatio  float64 `json:"cache_hit_ratio"`               // share of the redirects whose link is in the cache of their server
	Lookups   float64 `json:"database_lookups_per_second"`   // includes look-ups of links that are in a cache and older than the constant freshness
	Bandwidth float64 `json:"answer_bits_per_second"`        // bandwidth of the HTTP answers, without TLS, TCP and IP
	OneServer float64 `json:"server_answer_bits_per_second"` // the share of one server
}

func (in Input) redirects() Redirects {
	links := max(1, in.links(float64(in.Years)*year))
	fresh := freshRatio(cachedLinks, links, in.Zipf, in.Redirects/float64(in.Servers))
	return Redirects{
		HitRatio: hitRatio(cachedLinks, links, in.Zipf), Lookups: in.Redirects * (1 - fresh),
		Bandwidth: in.Redirects * answerBytes * 8, OneServer: in.Redirects * answerBytes * 8 / float64(in.Servers),
	}
}

// hitRatio returns the share of requests for the most popular links. The parameter cached is the number of
// these links, and links is the number of all links. If requests are independent, this share is the hit rate
// of a cache that replaces the least frequently used link (L. Breslau et al., "Web Caching and Zipf-like
// Distributions", INFOCOM 1999).
func hitRatio(cached, links, s float64) float64 {
	return harmonic(min(cached, links), s) / harmonic(links, s)
}

// freshRatio returns the share of requests that a server answers without a look-up. The parameter rate is the
// number of requests per second to this server. After a look-up, a link is fresh for f seconds. The first request
// after that causes a new look-up. If the link gets q requests per second, this request comes after 1/q more seconds
// on average. So one of 1+q*f requests needs a look-up, and the share without a look-up is q*f/(1+q*f) (J. Jung et
// al., "Modeling TTL-based Internet Caches", INFOCOM 2003). In the code, l is q*f.
func freshRatio(cached, links, s, rate float64) float64 {
	all, ratio := harmonic(links, s), 0.0
	for i := 1.0; i <= min(cached, links); i++ {
		share := math.Pow(i, -s) / all
		l := share * rate * freshness
		ratio += share * l / (1 + l)
	}
	return ratio
}

// exact is the number of terms that harmonic adds one by one.
const exact = 1000

// harmonic returns the sum of i^-s for i from 1 to n. It approximates the terms after the first 1,000 by the
// Euler-Maclaurin formula, with a relative error below 10^-9.
func harmonic(n, s float64) (sum float64) {
	n = math.Floor(n)
	for i := 1.0; i <= min(n, exact); i++ {
		sum += math.Pow(i, -s)
	}
	if n <= exact {
		return sum
	}
	f := func(x float64) float64 { return math.Pow(x, -s) }
	integral := math.Log(n / exact)
	if s != 1 {
		// math.Expm1 keeps its precision if s is near 1.
		integral = math.Pow(exact, 1-s) * math.Expm1((1-s)*math.Log(n/exact)) / (1 - s)
	}
	slope := func(x float64) float64 { return -s * f(x) / x }
	return sum + integral + (f(n)-f(exact))/2 + (slope(n)-slope(exact))/12
}
