// Package public serves the pages that are the same for everybody: the start page, the documentation, the state of the
// service and the legal pages.
package public
