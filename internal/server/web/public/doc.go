// Package public serves the pages that are the same for everyone: the start page, the documentation, the service status
// and the legal pages.
package public
