// A layer around a generated client of the Partner API.
export * from './app.js'
export * from './http.js'
export * from './pages.js'
export * from './tokens.js'
export * from './webhooks.js'
