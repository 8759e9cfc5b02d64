package visits

import (
	"fmt"
	"slices"
	"strings"
)

// BeforeImport contains the number of visits of an imported link before its import.
type BeforeImport struct {
	Code  string
	Owner int64
	Count
}

// BeforeImportStatement returns a statement and its argument. The statement stores the visits that links had before their
// import. The transaction that inserts the links must execute the statement, so that no link exists without these visits.
// These visits belong to no hour. [Store.Totals] includes them, and so does a [Series] whose range has no beginning. If a
// link already has such visits, the statement does not change them.
func (s Store) BeforeImportStatement(links []BeforeImport) (statement string, argument any, err error) {
	sorted := slices.SortedFunc(slices.Values(links), func(a, b BeforeImport) int { return strings.Compare(a.Code, b.Code) })
	text, err := array(sorted, func(p *BeforeImport) []any { return []any{p.Code, past, p.Owner, p.Human, p.Bot} })
	if err != nil {
		return "", nil, fmt.Errorf("store the visits of imported links: %w", err)
	}
	return fmt.Sprintf(upsertRows, s.engine.elements) + `NOTHING`, text, nil
}
