package sdk

import "iter"

// Each reads a list to its end, a page at a time, newest first. read reads the page of a cursor, the first one with nil;
// filters stay the same on every page. After an error the list ends.
func Each[T any](read func(cursor *string) (items []T, next *string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := (*string)(nil); ; {
			items, next, err := read(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			cursor = next
		}
	}
}
