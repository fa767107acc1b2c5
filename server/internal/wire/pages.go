// Pages of lists.

package wire

const (
	defaultPageSize = 100
	maxPageSize     = 1000
)

// PageSize is how many items a page has where a request asks for so many; 0 is for the default.
func PageSize(asked uint32) int {
	if asked == 0 {
		return defaultPageSize
	}
	return int(min(asked, maxPageSize))
}
